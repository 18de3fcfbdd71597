//! A dashboard with a simulated fleet, whose numbers change ten times a second.

use flash_sale::dashboard::{
    Action, Actions, JobInfo, LoadInfo, LogEntry, LogKind, ProductInfo, Publisher, Reach, Request,
    ServerAction, ServerInfo, ServerState, Snapshot, StrategyInfo, Totals, router,
};
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

/// A running dashboard. Dropping it closes its port and its pages' streams.
pub(crate) struct Fixture {
    pub(crate) address: SocketAddr,
    tasks: [JoinHandle<()>; 2],
}

impl Fixture {
    /// Starts a dashboard on a free port.
    pub(crate) async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), 1).await
    }

    /// Starts the dashboard of a different run at `address`.
    pub(crate) async fn at(address: SocketAddr, since: u64) -> Self {
        let listener = loop {
            // The connections of an earlier dashboard may still be closing.
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let address = listener.local_addr().unwrap();
        let first = snapshot(since);
        let (publisher, feed) = Publisher::new(&first);
        let (actions, requests) = Actions::channel();
        let app = router(feed, actions, Reach::of(address.ip()));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, tasks: [serving, tokio::spawn(run(first, publisher, requests))] }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn run(mut snapshot: Snapshot, publisher: Publisher, mut requests: mpsc::Receiver<Request>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            _ = ticks.tick() => sell(&mut snapshot),
            Some(request) = requests.recv() => {
                apply(&mut snapshot, request.action);
                let _ = request.reply.send(Ok(()));
            }
        }
        publisher.publish(&snapshot);
    }
}

fn sell(snapshot: &mut Snapshot) {
    if !snapshot.load.on {
        return;
    }
    snapshot.totals.sold += 4;
    snapshot.totals.orders_per_second = 40.0;
    for product in &mut snapshot.products {
        product.sold += 1;
        product.stock = (product.stock - 1).max(0);
        product.token = product.token.map(|token| token + 1);
        product.lost += u64::from(snapshot.strategy == "none");
    }
    snapshot.totals.lost = snapshot.products.iter().map(|product| product.lost).sum();
    for server in snapshot.servers.iter_mut().filter(|server| server.state == ServerState::Running) {
        server.requests += 13;
    }
}

fn apply(snapshot: &mut Snapshot, action: Action) {
    match action {
        Action::Strategy(name) => {
            log(snapshot, LogKind::Info, format!("Strategy changed from {} to {name}", snapshot.strategy));
            snapshot.strategy = name;
        }
        Action::StartLoad => snapshot.load.on = true,
        Action::StopLoad => snapshot.load.on = false,
        Action::Server(name, action) => {
            let server = snapshot.servers.iter_mut().find(|server| server.name == name).unwrap();
            (server.state, server.pid) = match action {
                ServerAction::Pause => (ServerState::Paused, server.pid),
                ServerAction::Kill => (ServerState::Dead, None),
                ServerAction::Revive => (ServerState::Running, server.pid.or(Some(4500))),
            };
        }
    }
}

fn log(snapshot: &mut Snapshot, kind: LogKind, text: String) {
    let id = snapshot.log.last().map_or(1, |entry| entry.id + 1);
    snapshot.log.push(LogEntry { id, at: 1_795_368_600_000 + id * 700, kind, text });
}

fn snapshot(since: u64) -> Snapshot {
    let names = ["shop-1", "shop-2", "shop-3"];
    let servers = names.iter().zip(4501..).map(|(name, pid)| ServerInfo {
        name: (*name).into(),
        state: ServerState::Running,
        pid: Some(pid),
        requests: u64::from(pid) / 3,
        share: 1.0 / 3.0,
    });
    let titles = [
        "Kettle, 1.7 l, brushed steel",
        "Bread knife",
        "Desk lamp with a long arm and a dimmer",
        "Notebook A5",
    ];
    let products = titles.iter().enumerate().map(|(index, title)| ProductInfo {
        sku: format!("KIT-10{index}"),
        title: (*title).into(),
        stock: 900 - 100 * index as i64,
        sold: 100 * index as u64,
        sold_twice: 0,
        lost: 0,
        holder: (index % 2 == 0).then(|| names[index % 3].into()),
        token: Some(1_795_374_397_123_450 + index as u64),
        waiters: index as u64,
    });
    let strategies = [
        ("none", "Reads the stock, takes the payment, writes the stock: no lock at all.", false),
        ("lock", "One distributed lock per product, and no check of its token.", false),
        (
            "fenced",
            "One distributed lock per product; the store checks its token on the read and on the write.",
            true,
        ),
    ];
    let jobs = ["expire-reservations", "restock", "nightly-audit"];
    let mut snapshot = Snapshot {
        since,
        place: "SQLite · locks on a private redis-server".into(),
        note: None,
        strategy: "fenced".into(),
        strategies: strategies
            .map(|(name, about, exact)| StrategyInfo { name: name.into(), about: about.into(), exact })
            .into(),
        load: LoadInfo { on: false, per_second: 40 },
        totals: Totals { products: 320, initial: 4_000, sold: 600, ..Totals::default() },
        servers: servers.collect(),
        products: products.collect(),
        jobs: jobs
            .map(|name| JobInfo {
                name: name.into(),
                last: Some("2026-11-22T17:30:00Z".into()),
                next: Some("2026-11-22T17:31:00Z".into()),
                outcome: Some("succeeded".into()),
            })
            .into(),
        leader: Some("shop-2".into()),
        log: Vec::new(),
    };
    for name in names {
        log(&mut snapshot, LogKind::Good, format!("{name} started"));
    }
    log(&mut snapshot, LogKind::Info, "shop-2 leads the scheduler".into());
    snapshot
}
