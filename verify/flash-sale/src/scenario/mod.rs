//! The scenarios S0 to S10, in real processes behind the balancer, with their expected verdicts.
//!
//! | file | contains |
//! | --- | --- |
//! | `script` | the table of scenarios: strategy, fault and expected verdict |
//! | `site` | the servers of a run: Redis, the databases, the directory |
//! | `stage` | the processes of a scenario, from the first start to the audit |
//! | `faults` | pauses, kills, restarts and partitions, each at an exact point |
//! | `judge` | the expectations, and the rules that check them |
//! | `holds` | the timeline of holders, derived from the responses |
//! | `jobs` | S10: the scheduler while its leader is killed |
//! | `stall`, `comparison` | the stall under an open model, and the comparison of the strategies |
//! | `run` | the run of one scenario from the table |
//! | `all` | the run of all parts |

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
