//! The dashboard, a page that shows and controls the servers, the stock and the locks.
//!
//! The page is a single embedded HTML file and contacts no other host. `GET /events` sends
//! snapshots as server-sent events. Actions are `POST` requests with a JSON body. Actions from
//! other origins are rejected.

mod action;
mod counts;
mod feed;
mod guard;
mod load;
mod log;
mod place;
mod report;
mod routes;
mod serve;
mod snapshot;
mod strategies;
mod supervisor;
mod view;

pub use action::{Action, ActionError, Actions, Request, ServerAction};
pub use feed::{Feed, Publisher};
pub use guard::Reach;
pub use place::PlaceError;
pub use routes::router;
pub use serve::{Config, DashboardError, run};
pub use snapshot::{
    JobInfo, LoadInfo, LogEntry, LogKind, ProductInfo, ServerInfo, ServerState, Snapshot, StrategyInfo,
    Totals,
};
