//! The scenarios S0 to S10, in real processes behind the balancer, with their expected verdicts.
//!
//! | file | contains |
//! | --- | --- |
//! | `script` | the table of scenarios: strategy, fault and expected verdict |
//! | `site` | the servers of a run: Redis, the databases, the directory |
//! | `stage` | the processes of a scenario, from the first start to the audit |
//! | `run` | the run of one scenario, with its pauses, kills, restarts and partitions, each at an exact point |
//! | `judge` | the expectations, the rules that check them, and the timeline of holders |
//! | `jobs` | S10: the scheduler while its leader is killed |
//! | `measurements` | the stall under an open model, and the comparison of the strategies |
//!
//! This file runs the parts of a plan and collects their results.

mod jobs;
mod judge;
mod measurements;
mod run;
mod script;
mod site;
mod stage;

pub use script::{Part, SCRIPTS, Script, Trouble, UnknownPart, Verdict};
pub use site::{DatabasePlan, Site, SiteError, SitePlan};
pub use stage::ScenarioError;

use crate::report::{Footer, Results, ScenarioResult};
use distlock::clock::UtcTime;
use std::{fs, thread, time::Duration};
use tokio::time::Instant;

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct AllPlan {
    /// Parts to run. Their order in this list has no effect.
    pub parts: Vec<Part>,
    /// Number of runs of each scenario.
    pub runs: u32,
    /// Amount of work.
    pub size: Size,
    /// Seed of the run.
    pub seed: u64,
}

/// The amount of work in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// All parts together take less than three minutes.
    Quick,
    /// Larger stocks and longer comparison rounds.
    Full,
}

impl Size {
    /// Returns the number of units for a scenario.
    fn stock(self, script: &Script) -> u32 {
        let pieces = match self {
            Self::Quick => 90,
            Self::Full => 400,
        };
        let pieces = match script.trouble {
            // Every section takes 70 ms.
            Trouble::SlowPayments => pieces / 3,
            // The sale must last until the last of its faults.
            Trouble::BothPauses => pieces * 4,
            _ => pieces,
        };
        if script.products > 1 { pieces.max(script.products * 2) } else { pieces }
    }

    /// Returns the length of a comparison round.
    fn round(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(1),
            Self::Full => Duration::from_secs(10),
        }
    }
}

/// Runs the parts of `plan` and returns their results. Calls `say` with each line of progress.
///
/// # Errors
/// Returns [`ScenarioError`] if a part does not complete. An unexpected verdict is not an error;
/// see [`Results::have_passed`].
///
/// # Cancel safety
/// Dropping this stops all shops. Private servers and files remain until `site` is dropped. On
/// servers that the run did not start, keys and databases remain until [`Site::close`].
pub async fn all(site: &Site, plan: &AllPlan, say: &(dyn Fn(&str) + Sync)) -> Result<Results, ScenarioError> {
    let (began, begin) = (UtcTime::now(), Instant::now());
    let mut results = Results { footer: footer(site, plan, began).await?, ..Results::default() };
    for round in 1..=plan.runs {
        let tag = if plan.runs > 1 { format!(" (run {round} of {})", plan.runs) } else { String::new() };
        let jobs = async {
            match plan.parts.contains(&Part::Jobs) {
                true => jobs::run(site, &format!("s10-{round}")).await.map(Some),
                false => Ok(None),
            }
        };
        // The jobs part mostly waits, so it runs concurrently.
        let (done, jobs) = tokio::try_join!(scenarios(site, plan, round, &tag, say), jobs)?;
        results.scenarios.extend(done);
        if let Some(jobs) = jobs {
            say(&line(&jobs, &tag));
            results.scenarios.push(jobs);
        }
    }
    if plan.parts.contains(&Part::Stall) {
        say("stall of 2 s in a load of 30 s at a fixed rate");
        results.stall = Some(measurements::stall(site, plan.seed).await?);
    }
    if plan.parts.contains(&Part::Comparison) {
        results.comparison = measurements::comparison(site, plan.seed, plan.size.round(), say).await?;
    }
    results.footer.seconds = begin.elapsed().as_secs();
    Ok(results)
}

async fn scenarios(
    site: &Site,
    plan: &AllPlan,
    round: u32,
    tag: &str,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<ScenarioResult>, ScenarioError> {
    let mut results = Vec::new();
    for script in SCRIPTS.iter().filter(|script| plan.parts.contains(&Part::Scenario(script))) {
        if script.strategy.needs_postgres() && !site.is_postgres() {
            say(&format!("{:<4} skipped: needs PostgreSQL (--postgres)", script.id));
            continue;
        }
        let name = format!("{}-{round}", script.id.to_lowercase());
        let seed = plan.seed.wrapping_add(round.into());
        let result = run::run(site, script, &name, plan.size.stock(script), seed).await?;
        say(&line(&result, tag));
        results.push(result);
    }
    Ok(results)
}

fn line(result: &ScenarioResult, tag: &str) -> String {
    let ScenarioResult { id, title, result: what, seconds, .. } = result;
    let verdict = match result.failures.first() {
        None => "as expected".to_owned(),
        Some(failure) => format!("FAILED: {failure}"),
    };
    format!("{id:<4} {title}: {what}, {seconds:.1} s{tag}: {verdict}")
}

async fn footer(site: &Site, plan: &AllPlan, began: UtcTime) -> Result<Footer, ScenarioError> {
    Ok(Footer {
        program: format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        optimised: !cfg!(debug_assertions),
        processor: processor(),
        kernel: kernel(),
        redis: site.redis_version().await?,
        database: site.database_version().await?,
        seed: plan.seed,
        began: began.to_string(),
        seconds: 0,
    })
}

/// Returns the processor model, and the number of processors available to this process.
fn processor() -> String {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    format!("{count} × {model}")
}

/// Returns the kernel and its version.
fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned()
}
