//! Backfills: their runs, and the runs that come before them.

use super::*;
use uuid::Uuid;

const HOURLY: &str = "0 * * * *";
const NOON: u64 = 12 * 3600;

/// Returns the claims of the next tick: the time of a scheduled run, or `None` for a backfill
/// run.
fn claims(planner: &mut Planner, now: UtcTime) -> Vec<Option<UtcTime>> {
    let mut out = Vec::new();
    planner.tick(now, u32::MAX, &mut Budget::default(), &mut out);
    out.iter().filter_map(claim).map(|due| due.request.run.scheduled()).collect()
}

#[test]
fn missed_instants_precede_the_backfill() {
    let mut planner = super::planner();
    let schedule = Schedule::cron(HOURLY).unwrap();
    let terms = JobTerms { placement: Placement::Leader, ..JobTerms::default() };
    planner.add(at(0), name(), schedule.clone(), terms);
    let backfill = PlannedBackfill { id: Uuid::from_u128(7), schedule, mark: at(0), last: at(3600) };
    planner.backfills_read(&name(), vec![backfill]);
    planner.elected();
    let now = at(NOON + 10);
    assert_eq!(claims(&mut planner, now), [], "the watermark is not known");
    register(&mut planner, &name(), at(NOON - 2 * 3600));
    let first = claims(&mut planner, now);
    assert!(first.iter().all(Option::is_some), "missed runs must come first: {first:?}");
}
