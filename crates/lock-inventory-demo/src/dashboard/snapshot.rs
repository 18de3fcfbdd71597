//! The value that the page shows: each update carries all of it.

use serde::{Deserialize, Serialize};

/// Everything on the page at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// When this dashboard started, in Unix milliseconds. It tells two runs on one address apart.
    pub since: u64,
    /// The stores in use, for people.
    pub place: String,
    /// The reason for running one server only, if there is one.
    pub note: Option<String>,
    /// The strategy in use.
    pub strategy: String,
    /// The strategies to choose from.
    pub strategies: Vec<StrategyInfo>,
    /// The load generator.
    pub load: LoadInfo,
    /// Sums over servers and products.
    pub totals: Totals,
    /// The servers, in the order in which they were started.
    pub servers: Vec<ServerInfo>,
    /// The products that sell most.
    pub products: Vec<ProductInfo>,
    /// The cron jobs.
    pub jobs: Vec<JobInfo>,
    /// The server that leads the scheduler.
    pub leader: Option<String>,
    /// The latest events, oldest first.
    pub log: Vec<LogEntry>,
}

/// One way to sell an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StrategyInfo {
    /// Its name on the command line.
    pub name: String,
    /// One sentence for people.
    pub about: String,
    /// `true` if it never sells more than the stock.
    pub exact: bool,
}

/// The load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LoadInfo {
    /// `true` while it sends orders.
    pub on: bool,
    /// Orders per second while it is on.
    pub per_second: u32,
}

/// Sums over servers and products.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Totals {
    /// Number of products in the catalogue.
    pub products: u64,
    /// Units in stock at the beginning, restocked ones included.
    pub initial: u64,
    /// Units sold.
    pub sold: u64,
    /// Units that were sold and stayed in the stock, so that they are sold twice, since the strategy was switched.
    pub oversold: u64,
    /// The same before that.
    pub oversold_before: u64,
    /// Orders accepted per second, over the last two seconds.
    pub orders_per_second: f64,
    /// Writes that the store refused because of an old fencing token.
    pub stale: u64,
    /// Orders refused because the lock was not granted in time.
    pub lock_timeouts: u64,
    /// Orders refused because the product was sold out.
    pub sold_out: u64,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Whether its process runs.
    pub state: ServerState,
    /// Its process id, while it has a process.
    pub pid: Option<u32>,
    /// Requests that the balancer sent to it.
    pub requests: u64,
    /// Its part of all requests, from 0 to 1.
    pub share: f64,
}

/// The state of a server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// The process runs.
    Running,
    /// The process is stopped by SIGSTOP.
    Paused,
    /// There is no process.
    Dead,
}

/// One product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProductInfo {
    /// Its code.
    pub sku: String,
    /// Its name for people.
    pub title: String,
    /// Units left.
    pub stock: i64,
    /// Units sold.
    pub sold: u64,
    /// Units that were sold and stayed in the stock, since the strategy was switched.
    pub oversold: u64,
    /// The server that holds its lock.
    pub holder: Option<String>,
    /// The fencing token of the current or the latest hold.
    pub token: Option<u64>,
    /// Requests that wait for its lock, on all servers.
    pub waiters: u64,
}

/// One cron job, as the servers report it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Its name.
    pub name: String,
    /// The start of its latest run (RFC 3339).
    pub last: Option<String>,
    /// Its next instant (RFC 3339).
    pub next: Option<String>,
    /// How its latest run ended.
    pub outcome: Option<String>,
}

/// One line of the event log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// Its number, from 1 on.
    pub id: u64,
    /// Its time, in Unix milliseconds.
    pub at: u64,
    /// Its weight.
    pub kind: LogKind,
    /// Its sentence.
    pub text: String,
}

/// The weight of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// Something was done.
    Info,
    /// Something is well again.
    Good,
    /// Something needs attention.
    Warning,
    /// Something broke.
    Fault,
}
