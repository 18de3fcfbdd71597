//! The data shown on the page. Each update contains all data.

use crate::server::JobInfo;
use serde::Serialize;

/// The data shown on the page at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// Start of this dashboard, in Unix milliseconds. Distinguishes runs at the same address.
    pub since: u64,
    /// Description of the stores in use.
    pub place: String,
    /// Reason for running only one server, if there is one.
    pub note: Option<String>,
    /// Strategy in use.
    pub strategy: String,
    /// Strategies to choose from.
    pub strategies: Vec<StrategyInfo>,
    /// State of the load generator.
    pub load: LoadInfo,
    /// Sums over servers and products.
    pub totals: Totals,
    /// Servers, in the order in which they were started.
    pub servers: Vec<ServerInfo>,
    /// Hot products.
    pub products: Vec<ProductInfo>,
    /// Cron jobs.
    pub jobs: Vec<JobInfo>,
    /// Name of the server that leads the scheduler.
    pub leader: Option<String>,
    /// Latest events, oldest first.
    pub log: Vec<LogEntry>,
}

/// A strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StrategyInfo {
    /// Name on the command line.
    pub name: String,
    /// Description in one sentence.
    pub about: String,
    /// `true` if the strategy never sells more than the stock.
    pub exact: bool,
}

/// The load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LoadInfo {
    /// `true` while the load generator sends orders.
    pub on: bool,
    /// Orders per second while the load is on.
    pub per_second: u32,
}

/// Sums over servers and products.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Totals {
    /// Number of products in the catalogue.
    pub products: u64,
    /// Units in stock at the beginning, plus restocks.
    pub initial: u64,
    /// Units sold.
    pub sold: u64,
    /// Units whose deduction from the stock was lost since the last strategy switch. Each is sold twice, or will be.
    pub lost: u64,
    /// Units whose deduction was lost before that switch.
    pub lost_before: u64,
    /// Units sold so far although they were not there, with any strategy.
    pub sold_twice: u64,
    /// Accepted orders per second over the last two seconds.
    pub orders_per_second: f64,
    /// Number of writes that the store refused because of a stale fencing token.
    pub stale: u64,
    /// Number of orders refused because the lock was not granted in time.
    pub lock_timeouts: u64,
    /// Number of orders refused because the product was sold out.
    pub sold_out: u64,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerInfo {
    /// Name of the server.
    pub name: String,
    /// State of its process.
    pub state: ServerState,
    /// Process id; `None` while the server has no process.
    pub pid: Option<u32>,
    /// Number of requests that the balancer sent to the server.
    pub requests: u64,
    /// Share of all requests, from 0 to 1.
    pub share: f64,
}

/// The state of a server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// The process is running.
    Running,
    /// The process is suspended by SIGSTOP.
    Paused,
    /// The server has no process.
    Dead,
}

/// One product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProductInfo {
    /// Product code.
    pub sku: String,
    /// Product title.
    pub title: String,
    /// Units in stock.
    pub stock: i64,
    /// Units sold.
    pub sold: u64,
    /// Units whose deduction from the stock was lost since the last strategy switch.
    pub lost: u64,
    /// Units sold so far although they were not there, with any strategy.
    pub sold_twice: u64,
    /// Name of the server that holds the lock.
    pub holder: Option<String>,
    /// Fencing token of the current or last hold.
    pub token: Option<u64>,
    /// Number of requests that wait for the lock, on all servers.
    pub waiters: u64,
}

/// An entry of the event log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// Entry number, starting at 1.
    pub id: u64,
    /// Time of the entry, in Unix milliseconds.
    pub at: u64,
    /// Kind of the entry.
    pub kind: LogKind,
    /// Text of the entry.
    pub text: String,
}

/// The kind of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// An action or a neutral change.
    Info,
    /// A recovery.
    Good,
    /// A state that needs attention.
    Warning,
    /// A failure.
    Fault,
}
