//! Combines the reports of the servers into the data shown on the page: totals that survive restarts, rates, and the log of
//! changes.

use super::snapshot::{
    LoadInfo, LogEntry, LogKind, ProductInfo, ServerInfo, ServerState, Snapshot, StrategyInfo, Totals,
};
use crate::{
    audit::StockCount,
    server::{Counts, HeldLock, Report},
    strategy::Strategy,
};
use std::collections::{BTreeMap, VecDeque};

/// Window of the order rate, in milliseconds.
const RATE_WINDOW: u64 = 2_000;
/// Time between two updates of the event log, in milliseconds. A growing counter adds one entry per
/// update.
const LOG_EVERY: u64 = 1_000;
/// Maximum number of entries of the event log.
const MAX_ENTRIES: usize = 100;

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
    fn record(&mut self, server: &str, pid: u32, counters: Counts) {
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
    strategy: Strategy,
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
    pub(super) fn new(setting: Setting, strategy: Strategy) -> Self {
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
    pub(super) fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Returns `true` if the page offers this strategy.
    pub(super) fn offers(&self, strategy: Strategy) -> bool {
        self.setting.strategies.iter().any(|offered| offered.name == strategy.name())
    }

    /// Sets the strategy that every server should use.
    pub(super) fn set_strategy(&mut self, strategy: Strategy) {
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
            strategy: self.strategy.name().to_owned(),
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

/// The sum of a counter over all servers.
#[derive(Debug, Default)]
struct Sum {
    ended: u64,
    latest: BTreeMap<String, (u32, u64)>,
}

impl Sum {
    /// Records the counter of `server`, whose process id is `pid`.
    fn record(&mut self, server: &str, pid: u32, count: u64) {
        match self.latest.get_mut(server) {
            Some((known, latest)) if *known == pid => *latest = count,
            Some(entry) => {
                self.ended += entry.1;
                *entry = (pid, count);
            }
            None => drop(self.latest.insert(server.into(), (pid, count))),
        }
    }

    fn total(&self) -> u64 {
        self.ended + self.latest.values().map(|(_, count)| count).sum::<u64>()
    }
}

/// The rate of a counter over a time window.
#[derive(Debug)]
struct Rate {
    window: u64,
    readings: VecDeque<(u64, u64)>,
}

impl Rate {
    /// Creates a rate over the last `window` milliseconds.
    fn over(window: u64) -> Self {
        Self { window, readings: VecDeque::new() }
    }

    /// Records the counter at the time `at`, in milliseconds, and returns the rate per second.
    fn record(&mut self, at: u64, count: u64) -> f64 {
        self.readings.push_back((at, count));
        while self.readings.get(1).is_some_and(|(next, _)| next + self.window <= at) {
            self.readings.pop_front();
        }
        let (from, before) = self.readings[0];
        let elapsed = at.saturating_sub(from);
        if elapsed == 0 { 0.0 } else { count.saturating_sub(before) as f64 * 1e3 / elapsed as f64 }
    }
}

/// The growth of a count since a strategy switch. The count can decrease; only increases are added.
#[derive(Debug, Default)]
struct SinceSwitch {
    latest: u64,
    since: u64,
    before: u64,
}

impl SinceSwitch {
    /// Marks a switch. All growth so far counts as growth before it.
    fn restart(&mut self) {
        self.before += std::mem::take(&mut self.since);
    }

    /// Records the count.
    fn record(&mut self, count: u64) {
        self.since += count.saturating_sub(self.latest);
        self.latest = count;
    }

    /// Returns the growth since the switch.
    fn since(&self) -> u64 {
        self.since
    }

    /// Returns the growth before the switch.
    fn before(&self) -> u64 {
        self.before
    }
}

/// The latest events.
#[derive(Debug, Default)]
struct EventLog {
    entries: VecDeque<LogEntry>,
    latest: u64,
}

impl EventLog {
    /// Adds an entry for the time `at`, in Unix milliseconds.
    fn add(&mut self, at: u64, kind: LogKind, text: String) {
        self.latest += 1;
        self.entries.push_back(LogEntry { id: self.latest, at, kind, text });
        if self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
    }

    /// Adds the first entries, one per server in `first`.
    fn begin(&mut self, at: u64, first: &Snapshot) {
        for (kind, text) in first.servers.iter().filter_map(|server| process_change(None, server)) {
            self.add(at, kind, text);
        }
    }

    /// Adds an entry for each change from `before` to `after`.
    fn compare(&mut self, at: u64, before: &Snapshot, after: &Snapshot) {
        for (kind, text) in changes(before, after) {
            self.add(at, kind, text);
        }
    }

    /// Returns the entries, oldest first.
    fn entries(&self) -> Vec<LogEntry> {
        self.entries.iter().cloned().collect()
    }
}

fn changes(before: &Snapshot, after: &Snapshot) -> Vec<(LogKind, String)> {
    let mut lines = Vec::new();
    for server in &after.servers {
        let earlier = before.servers.iter().find(|earlier| earlier.name == server.name);
        lines.extend(process_change(earlier, server));
    }
    if after.strategy != before.strategy {
        lines.push((
            LogKind::Info,
            format!("Strategy changed from {} to {}", before.strategy, after.strategy),
        ));
    }
    if after.load.on != before.load.on {
        lines.push((LogKind::Info, if after.load.on { "Load started" } else { "Load stopped" }.into()));
    }
    if after.leader != before.leader {
        lines.push(match &after.leader {
            Some(leader) => (LogKind::Info, format!("{leader} leads the scheduler")),
            None => (LogKind::Warning, "No server leads the scheduler".into()),
        });
    }
    let stale = after.totals.stale.saturating_sub(before.totals.stale);
    if stale > 0 {
        lines.push((
            LogKind::Warning,
            format!("{} refused by the fencing token", counted(stale, "stale write")),
        ));
    }
    for product in &after.products {
        let earlier = before.products.iter().find(|earlier| earlier.sku == product.sku);
        let more = product.sold_twice.saturating_sub(earlier.map_or(0, |earlier| earlier.sold_twice));
        if more > 0 {
            lines.push((LogKind::Fault, format!("{}: {} sold twice", product.sku, counted(more, "unit"))));
        }
        let more = product.lost.saturating_sub(earlier.map_or(0, |earlier| earlier.lost));
        if more > 0 {
            lines.push((LogKind::Fault, format!("{}: {} lost", product.sku, counted(more, "deduction"))));
        }
        if product.stock == 0 && earlier.is_some_and(|earlier| earlier.stock > 0) {
            lines.push((LogKind::Info, format!("{} is sold out", product.sku)));
        }
    }
    for job in &after.jobs {
        let earlier = before.jobs.iter().find(|earlier| earlier.name == job.name);
        // Successful runs are omitted, because they would displace all other entries.
        if earlier.is_some_and(|earlier| (&earlier.last, &earlier.outcome) != (&job.last, &job.outcome))
            && let Some(outcome) = job.outcome.as_deref().filter(|outcome| *outcome != "succeeded")
        {
            lines.push((LogKind::Fault, format!("Job {}: {}", job.name, outcome.replace('_', " "))));
        }
    }
    lines
}

fn process_change(earlier: Option<&ServerInfo>, now: &ServerInfo) -> Option<(LogKind, String)> {
    use ServerState::{Dead, Paused, Running};
    let name = &now.name;
    let started = || (LogKind::Good, format!("{name} started, pid {}", now.pid.unwrap_or(0)));
    let Some(earlier) = earlier else { return Some(started()) };
    match (earlier.state, now.state) {
        (Dead, Running) => Some(started()),
        (Running, Running) if earlier.pid != now.pid => Some(started()),
        (Paused, Running) => Some((LogKind::Good, format!("{name} resumed"))),
        (_, Paused) if earlier.state != Paused => Some((LogKind::Warning, format!("{name} is paused"))),
        (_, Dead) if earlier.state != Dead => Some((LogKind::Fault, format!("{name} is dead"))),
        _ => None,
    }
}

fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
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
        View::new(setting, Strategy::Fenced)
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
        let mut look = |sold, strategy, changing| {
            let (name, mut report) = report("shop-1", 10, None);
            (report.strategy, report.changing) = (strategy, changing);
            view.record([(name, report)], stock_counts(sold, 90));
            let totals = view.snapshot(at(0, [ServerState::Running; 2])).totals;
            let seen = (totals.lost, totals.lost_before);
            view.set_strategy(Strategy::Lock);
            seen
        };
        assert_eq!(look(13, Strategy::Fenced, false), (3, 0), "13 sold, 10 deducted");
        assert_eq!(look(14, Strategy::Fenced, false), (0, 4), "the server has not switched");
        assert_eq!(look(15, Strategy::Lock, true), (0, 5), "an earlier order is under way");
        assert_eq!(look(16, Strategy::Lock, false), (0, 6), "the stock may be from before its end");
        assert_eq!(look(17, Strategy::Lock, false), (1, 6));
    }

    #[test]
    fn event_log_contains_a_line_per_change() {
        use ServerState::{Dead, Paused, Running};
        let mut view = view();
        view.record([report("shop-1", 10, None)], stock_counts(10, 90));
        view.snapshot(at(0, [Running, Running]));
        view.record([report("shop-1", 10, None)], stock_counts(12, 90));
        view.set_strategy(Strategy::None);
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

    #[test]
    fn sum_continues_when_a_server_restarts() {
        let mut sum = Sum::default();
        sum.record("shop-1", 10, 7);
        sum.record("shop-2", 11, 1);
        sum.record("shop-1", 10, 9);
        assert_eq!(sum.total(), 10);
        sum.record("shop-1", 12, 2);
        assert_eq!(sum.total(), 12, "9 from the old process, 2 from the new one, 1 from the other server");
    }

    #[test]
    fn rate_covers_its_window() {
        let mut rate = Rate::over(2_000);
        assert_eq!(rate.record(0, 0), 0.0);
        assert_eq!(rate.record(1_000, 10), 10.0);
        assert_eq!(rate.record(2_000, 20), 10.0);
        assert_eq!(rate.record(3_000, 60), 25.0, "50 orders in the last two seconds");
        assert_eq!(rate.record(9_000, 60), 0.0);
    }

    #[test]
    fn growth_before_a_switch_is_counted_separately() {
        let mut count = SinceSwitch::default();
        count.record(5);
        assert_eq!((count.since(), count.before()), (5, 0));
        count.restart();
        count.record(6);
        assert_eq!((count.since(), count.before()), (1, 5));
        count.record(2);
        assert_eq!(count.since(), 1, "a decreasing count must not add growth");
        count.record(4);
        assert_eq!(count.since(), 3);
    }
}
