//! The scenarios S0 to S10, in real processes behind the balancer, each with the verdict that it must have.
//!
//! | file | has |
//! | --- | --- |
//! | `script` | the table of scenarios: who sells how, what goes wrong, what must come out |
//! | `site` | the servers of a run: Redis, the databases, the directory |
//! | `stage` | the processes of one scenario, from the first start to the audit |
//! | `faults` | pauses, kills, restarts and partitions, each at an exact place |
//! | `judge` | the expectations, and the rules by which a result breaks them |
//! | `holds` | the timeline of holders, from the answers |
//! | `jobs` | S10: the scheduler over a kill of its leader |
//! | `stall`, `comparison` | the stall under an open model, and the strategies under the same load |
//! | `run` | one scenario of the table |
//! | `all` | everything, into one report |

mod all;
mod comparison;
mod faults;
mod holds;
mod jobs;
mod judge;
mod run;
mod script;
mod site;
mod stage;
mod stall;

pub use all::{AllPlan, Size, all};
pub use script::{Part, SCRIPTS, Script, Trouble, UnknownPart, Verdict};
pub use site::{DatabasePlan, Site, SiteError, SitePlan};
pub use stage::ScenarioError;
