//! Several processes that contend for one lock, and the tools that control them.
//!
//! | module | contains |
//! | --- | --- |
//! | [`cli`] | the command line of the executable, and the client library that it selects |
//! | [`line`](mod@line) | the reports and orders of a process; the Java one in `verify/interop/redisson` knows some of them |
//! | [`node`] | the commands of the executable |
//! | [`fenced`] | a table that checks fencing tokens, for processes that outlive their lock |
//! | [`referee`] | a process that records who holds a lock until when, and judges |
//! | [`twins`] | a process that forks after it has used locks |
//! | [`process`] | a process under test: started, controlled, observed, and killed when dropped; several at once |

pub mod cli;
pub mod fenced;
pub mod line;
pub mod node;
pub mod process;
pub mod referee;
#[cfg(unix)]
pub mod twins;
