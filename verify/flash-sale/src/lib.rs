//! The bench of the shop in `lock-inventory-demo`: it runs the shop beside other ways to sell the same stock, in real
//! processes under load and faults, and audits the result.
//!
//! | module | contains |
//! | --- | --- |
//! | [`strategy`] | the ways to sell an order; `fenced` is the shop's own router, unchanged |
//! | [`server`] | one process of the bench: the shop, the other strategies, and routes that switch them and inject faults |
//! | [`faults`] | a payment provider that pauses or stalls its caller after the charge |
//! | [`audit`] | the stock and the sums of the orders while a sale runs; the shop's audit, and the comparison with the answers that clients received |
//! | [`fleet`], [`redis`] | processes of the bench, their pauses and kills; a private Redis server, and plain commands |
//! | [`balancer`], [`load`], [`http_client`] | a round-robin reverse proxy, and a load generator with a journal of outcomes |
//! | [`scenario`], [`report`] | the scenarios, their expectations, and the page of results |
//! | [`dashboard`] | a page that shows and controls servers, stock and locks |
//! | [`addresses`], [`problem`], [`cli`] | addresses without secrets in their text, refusals, and the command line |

pub mod addresses;
pub mod audit;
pub mod balancer;
pub mod cli;
pub mod dashboard;
pub mod faults;
pub mod fleet;
pub mod http_client;
pub mod load;
pub mod problem;
pub mod redis;
pub mod report;
pub mod scenario;
pub mod server;
pub mod strategy;
