//! Several processes contending for one lock: the one that takes it, and the hand that drives it.
//!
//! | module | is |
//! | --- | --- |
//! | [`client`] | the client library of a process under test |
//! | [`cli`] | the command line of the executable |
//! | [`line`](mod@line) | the reports and orders of a process; the Java one in `verify/interop/redisson` has some of them |
//! | [`node`] | what the executable does |
//! | [`fenced`] | a table that checks fencing tokens, for processes that outlive their lock |
//! | [`together`] | several of them at once |
//! | [`referee`] | a process that hears who is inside until when, and judges |
//! | [`process`] | a process under test: started, told what to do, listened to, killed when dropped |

pub mod cli;
pub mod client;
pub mod fenced;
pub mod line;
pub mod node;
pub mod process;
pub mod referee;
pub mod together;
