//! Combines the servers' reports into the data shown on the page.

use super::{
    counts::{Rate, SinceSwitch, Sum},
    log::EventLog,
    report::{Counters, HeldLock, Report},
    snapshot::{LoadInfo, ProductInfo, ServerInfo, ServerState, Snapshot, StrategyInfo, Totals},
};
use crate::stock::StockCount;
use std::collections::BTreeMap;

/// Window of the order rate, in milliseconds.
const RATE_WINDOW: u64 = 2_000;
/// Time between two updates of the event log, in milliseconds. A growing counter adds one entry per
/// update.
const LOG_EVERY: u64 = 1_000;

/// Data that does not change.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Start of the dashboard, in Unix milliseconds.
    pub(super) since: u64,
    pub(super) place: String,
    pub(super) note: Option<String>,
    pub(super) strategies: Vec<StrategyInfo>,
    /// Codes and titles of the products on the page, in order.
    pub(super) products: Vec<(String, String)>,
}

/// Current data from sources other than the servers' reports.
#[derive(Debug)]
pub(super) struct Moment {
    /// Time in Unix milliseconds.
    pub(super) at: u64,
    pub(super) servers: Vec<ServerInfo>,
    pub(super) load: LoadInfo,
}

/// Sums of all servers' counters.
#[derive(Debug, Default)]
struct Sums {
    orders: Sum,
    sold_out: Sum,
    stale: Sum,
    lock_timeouts: Sum,
}

impl Sums {
    fn record(&mut self, server: &str, pid: u32, counters: Counters) {
        self.orders.record(server, pid, counters.orders);
        self.sold_out.record(server, pid, counters.sold_out);
        self.stale.record(server, pid, counters.stale);
        self.lock_timeouts.record(server, pid, counters.lock_timeouts);
    }
}

/// The state from which snapshots are created.
#[derive(Debug)]
pub(super) struct View {
    setting: Setting,
    strategy: String,
    /// Latest report of each server.
    reports: BTreeMap<String, Report>,
    /// Latest stock.
    stock_counts: Vec<StockCount>,
    sums: Sums,
    rate: Rate,
    lost: BTreeMap<String, SinceSwitch>,
    /// Never restarted: units whose deduction was lost before a switch are sold twice after it.
    sold_twice: BTreeMap<String, SinceSwitch>,
    /// Number of polls of the servers so far.
    looks: u64,
    /// Number of the first poll whose stock reflects only the current strategy.
    settled_at: u64,
    /// Highest token of each product so far.
    tokens: BTreeMap<String, u64>,
    log: EventLog,
    /// Time and snapshot of the latest update of the event log.
    looked: Option<(u64, Snapshot)>,
}

impl View {
    pub(super) fn new(setting: Setting, strategy: String) -> Self {
        Self {
            setting,
            strategy,
            reports: BTreeMap::new(),
            stock_counts: Vec::new(),
            sums: Sums::default(),
            rate: Rate::over(RATE_WINDOW),
            lost: BTreeMap::new(),
            sold_twice: BTreeMap::new(),
            looks: 0,
            settled_at: 0,
            tokens: BTreeMap::new(),
            log: EventLog::default(),
            looked: None,
        }
    }

    /// Returns the strategy that every server should use.
    pub(super) fn strategy(&self) -> &str {
        &self.strategy
    }

    /// Returns `true` if the page offers a strategy with this name.
    pub(super) fn offers(&self, strategy: &str) -> bool {
        self.setting.strategies.iter().any(|offered| offered.name == strategy)
    }

    /// Sets the strategy that every server should use.
    pub(super) fn set_strategy(&mut self, strategy: String) {
        if self.strategy != strategy {
            self.strategy = strategy;
            self.settle();
        }
    }

    /// Attributes growth up to and including the next poll to the earlier strategy, because the stock of the latest one may
    /// be from before the end of its last order.
    fn settle(&mut self) {
        self.settled_at = self.looks + 2;
    }

    /// Records one poll: the reports of the servers, and then the stock, unless it could not be read. If no report mentions
    /// an order of an earlier strategy, the stock contains the effects of all of them.
    pub(super) fn record(
        &mut self,
        reports: impl IntoIterator<Item = (String, Report)>,
        stock_counts: Option<Vec<StockCount>>,
    ) {
        self.looks += 1;
        for (server, report) in reports {
            self.record_one(&server, report);
        }
        if let Some(stock_counts) = stock_counts {
            self.stock_counts = stock_counts;
        }
    }

    fn record_one(&mut self, server: &str, report: Report) {
        self.sums.record(server, report.pid, report.counters);
        for (sku, token) in report.locks.iter().filter_map(|lock| Some((&lock.sku, lock.token?))) {
            let highest = self.tokens.entry(sku.clone()).or_default();
            *highest = token.max(*highest);
        }
        self.reports.insert(server.into(), report);
    }

    /// Returns the current snapshot.
    pub(super) fn snapshot(&mut self, moment: Moment) -> Snapshot {
        let Moment { at, servers, load } = moment;
        // Dead servers' reports about locks and leadership are outdated.
        self.reports
            .retain(|name, _| servers.iter().any(|one| one.name == *name && one.state != ServerState::Dead));
        let running = servers.iter().filter(|one| one.state == ServerState::Running);
        if running
            .filter_map(|one| self.reports.get(&one.name))
            .any(|report| report.changing || report.strategy != self.strategy)
        {
            self.settle();
        }
        let totals = self.totals(at);
        let jobs = self.reports.values().max_by_key(|report| report.leader).map(|report| report.jobs.clone());
        let mut leaders = self.reports.iter().filter(|(_, report)| report.leader);
        let mut snapshot = Snapshot {
            since: self.setting.since,
            place: self.setting.place.clone(),
            note: self.setting.note.clone(),
            strategy: self.strategy.clone(),
            strategies: self.setting.strategies.clone(),
            load,
            totals,
            products: self.setting.products.iter().map(|(sku, title)| self.product(sku, title)).collect(),
            jobs: jobs.unwrap_or_default(),
            leader: leaders.next().map(|(name, _)| name.clone()),
            servers,
            log: Vec::new(),
        };
        match &self.looked {
            Some((looked_at, _)) if at < looked_at + LOG_EVERY => {}
            Some((_, before)) => {
                self.log.compare(at, before, &snapshot);
                self.looked = Some((at, snapshot.clone()));
            }
            None => {
                self.log.begin(at, &snapshot);
                self.looked = Some((at, snapshot.clone()));
            }
        }
        snapshot.log = self.log.entries();
        snapshot
    }

    fn totals(&mut self, at: u64) -> Totals {
        let orders = self.sums.orders.total();
        let mut totals = Totals {
            products: self.stock_counts.len() as u64,
            orders_per_second: self.rate.record(at, orders),
            stale: self.sums.stale.total(),
            lock_timeouts: self.sums.lock_timeouts.total(),
            sold_out: self.sums.sold_out.total(),
            ..Totals::default()
        };
        let is_settled = self.looks >= self.settled_at;
        for count in &self.stock_counts {
            totals.initial += u64::try_from(count.supplied).unwrap_or(0);
            totals.sold += u64::try_from(count.sold).unwrap_or(0);
            let lost = self.lost.entry(count.sku.clone()).or_default();
            lost.record(count.lost());
            if !is_settled {
                lost.restart();
            }
            totals.lost += lost.since();
            totals.lost_before += lost.before();
            let sold_twice = self.sold_twice.entry(count.sku.clone()).or_default();
            sold_twice.record(count.sold_twice());
            totals.sold_twice += sold_twice.since();
        }
        totals
    }

    fn product(&self, sku: &str, title: &str) -> ProductInfo {
        let count = self.stock_counts.iter().find(|count| count.sku == sku);
        let locks = || {
            let of_product = move |lock: &&HeldLock| lock.sku == sku;
            let reports = self.reports.iter();
            reports.flat_map(move |(name, report)| {
                report.locks.iter().filter(of_product).map(move |lock| (name, lock))
            })
        };
        // A paused server still reports a lock that another server may hold. The highest token
        // belongs to the current holder.
        let holder = locks().filter(|(_, lock)| lock.token.is_some()).max_by_key(|(_, lock)| lock.token);
        let since = |all: &BTreeMap<String, SinceSwitch>| all.get(sku).map_or(0, SinceSwitch::since);
        ProductInfo {
            sku: sku.into(),
            title: title.into(),
            stock: count.map_or(0, |count| count.stock),
            sold: count.and_then(|count| u64::try_from(count.sold).ok()).unwrap_or(0),
            lost: since(&self.lost),
            sold_twice: since(&self.sold_twice),
            holder: holder.map(|(name, _)| name.clone()),
            token: self.tokens.get(sku).copied(),
            waiters: locks().map(|(_, lock)| lock.waiters).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server(name: &str, state: ServerState) -> ServerInfo {
        ServerInfo { name: name.into(), state, pid: Some(1), requests: 0, share: 0.0 }
    }

    fn report(shop: &str, pid: u32, token: Option<u64>) -> (String, Report) {
        let counters = json!({ "orders": 5, "sold_out": 1, "stale": 0, "lock_timeouts": 0 });
        let all = json!({ "shop": shop, "pid": pid, "strategy": "fenced", "changing": false,
            "locks": [{ "sku": "A", "token": token, "waiters": 2 }], "counters": counters, "jobs": [],
            "leader": shop == "shop-1" });
        (shop.into(), serde_json::from_value(all).unwrap())
    }

    fn stock_counts(sold: i64, stock: i64) -> Option<Vec<StockCount>> {
        Some(vec![StockCount { sku: "A".into(), supplied: 100, stock, reserved: 0, sold }])
    }

    fn view() -> View {
        let products = vec![("A".into(), "Anvil".into())];
        let setting =
            Setting { since: 1, place: String::new(), note: None, strategies: Vec::new(), products };
        View::new(setting, "fenced".into())
    }

    fn at(at: u64, states: [ServerState; 2]) -> Moment {
        let servers =
            states.into_iter().zip(["shop-1", "shop-2"]).map(|(state, name)| server(name, state)).collect();
        Moment { at, servers, load: LoadInfo { on: false, per_second: 1 } }
    }

    #[test]
    fn server_with_the_higher_token_is_the_holder() {
        use ServerState::{Dead, Paused, Running};
        let mut view = view();
        view.record([report("shop-1", 10, Some(7)), report("shop-2", 11, Some(8))], stock_counts(5, 95));
        let page = view.snapshot(at(0, [Paused, Running]));
        let product = &page.products[0];
        assert_eq!((product.holder.as_deref(), product.token, product.waiters), (Some("shop-2"), Some(8), 4));
        assert_eq!((page.leader.as_deref(), page.totals.sold_out), (Some("shop-1"), 2));
        let page = view.snapshot(at(1, [Running, Dead]));
        assert_eq!(page.products[0].holder.as_deref(), Some("shop-1"), "a dead server must not hold a lock");
        assert_eq!(page.products[0].token, Some(8), "the highest token must be kept");
        assert_eq!(page.totals.sold_out, 2, "the dead server's counts must be kept");
    }

    #[test]
    fn lost_deductions_and_units_sold_twice_are_separate() {
        let mut view = view();
        let mut look = |sold, stock| {
            view.record([], stock_counts(sold, stock));
            let totals = view.snapshot(at(0, [ServerState::Running; 2])).totals;
            (totals.lost, totals.sold_twice)
        };
        assert_eq!(look(13, 90), (3, 0), "13 sold, 10 deducted");
        assert_eq!(look(103, 0), (3, 3), "the stock is empty");
        assert_eq!(look(104, 2), (6, 4), "four sold twice, two more still in stock");
    }

    #[test]
    fn units_of_the_previous_strategy_are_separate() {
        let mut view = view();
        let mut look = |sold, strategy: &str, changing| {
            let (name, mut report) = report("shop-1", 10, None);
            (report.strategy, report.changing) = (strategy.into(), changing);
            view.record([(name, report)], stock_counts(sold, 90));
            let totals = view.snapshot(at(0, [ServerState::Running; 2])).totals;
            let seen = (totals.lost, totals.lost_before);
            view.set_strategy("lock".into());
            seen
        };
        assert_eq!(look(13, "fenced", false), (3, 0), "13 sold, 10 deducted");
        assert_eq!(look(14, "fenced", false), (0, 4), "the server has not switched");
        assert_eq!(look(15, "lock", true), (0, 5), "an earlier order is under way");
        assert_eq!(look(16, "lock", false), (0, 6), "the stock may be from before its end");
        assert_eq!(look(17, "lock", false), (1, 6));
    }

    #[test]
    fn event_log_contains_a_line_per_change() {
        use ServerState::{Dead, Paused, Running};
        let mut view = view();
        view.record([report("shop-1", 10, None)], stock_counts(10, 90));
        view.snapshot(at(0, [Running, Running]));
        view.record([report("shop-1", 10, None)], stock_counts(12, 90));
        view.set_strategy("none".into());
        let page = view.snapshot(at(LOG_EVERY, [Paused, Dead]));
        let texts: Vec<_> = page.log.iter().map(|entry| entry.text.as_str()).collect();
        let expected = [
            "shop-1 started, pid 1",
            "shop-2 started, pid 1",
            "shop-1 is paused",
            "shop-2 is dead",
            "Strategy changed from fenced to none",
        ];
        assert_eq!(texts, expected);
        assert_eq!(page.log.iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }
}
