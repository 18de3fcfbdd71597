//! Tests of the planner after an outage: late and missed runs, catch-up runs, the backfills behind them, and bounded
//! work.

use super::*;
use uuid::Uuid;

fn terms(misfire: Misfire, grace: Option<u64>) -> JobTerms {
    JobTerms { misfire, grace: grace.map(Duration::from_secs), ..JobTerms::default() }
}

/// Claimed runs, and whether each is a catch-up run.
type Claims = Vec<(RunId, CatchUp)>;

fn minutes(minutes: std::ops::RangeInclusive<u64>, catch_up: CatchUp) -> Claims {
    minutes.map(|minute| (run_at(minute * 60), catch_up)).collect()
}

/// Returns the runs of an every-minute job that are planned after half an hour without a tick, and the number of
/// missed ones.
fn after_half_an_hour(terms: JobTerms) -> (Vec<(RunId, CatchUp)>, u32) {
    let mut story = Story::led("* * * * *", terms);
    let now = at(30 * 60 + 20);
    let commands = story.tick(now);
    let missed = commands.iter().filter_map(|command| match command {
        Command::Skipped { reason: SkipReason::Missed, count, .. } => Some(*count),
        _ => None,
    });
    let claims = commands.iter().filter_map(claim).map(|due| (due.request.run, due.request.catch_up));
    let (mut asked, missed): (Vec<_>, u32) = (claims.collect(), missed.sum());
    if let [(run, _)] = asked[..] {
        story.answer(now, run, granted());
        asked.extend(story.all_claims(now));
    }
    assert_eq!(story.all_claims(at(31 * 60)), minutes(31..=31, CatchUp::No), "and then the next one");
    (asked, missed)
}

#[test]
fn latest_within_grace_is_late_and_earlier_are_missed() {
    let late = minutes(30..=30, CatchUp::No);
    let and_late = |from| [minutes(from..=29, CatchUp::Yes), late.clone()].concat();
    for grace in [None, Some(30), Some(3600)] {
        for (misfire, asked) in [
            (Misfire::Skip, late.clone()),
            (Misfire::FireOnce, late.clone()),
            (Misfire::FireAll { max: 5 }, and_late(26)),
            (Misfire::FireAll { max: 50 }, and_late(1)),
        ] {
            let missed = 30 - u32::try_from(asked.len()).unwrap();
            assert_eq!(after_half_an_hour(terms(misfire, grace)), (asked, missed), "{misfire:?}, {grace:?}");
        }
    }
}

#[test]
fn misfire_policy_decides_beyond_the_grace() {
    for (misfire, from) in [(Misfire::Skip, 31), (Misfire::FireOnce, 30), (Misfire::FireAll { max: 5 }, 26)] {
        let asked = minutes(from..=30, CatchUp::Yes);
        let missed = 30 - u32::try_from(asked.len()).unwrap();
        assert_eq!(after_half_an_hour(terms(misfire, Some(10))), (asked, missed), "{misfire:?}");
    }
}

#[test]
fn default_grace_is_half_the_interval_or_a_day() {
    const NOON: u64 = 12 * 3600;
    const DAY: u64 = 24 * 3600;
    for (schedule, instant, grace) in
        [("* * * * *", 60, 30), ("0 12 * * *", NOON, DAY / 2), ("@at 1970-01-01T12:00:00Z", NOON, DAY)]
    {
        for (late, asked) in [(grace, 1), (grace + 1, 0)] {
            let mut story = Story::led(schedule, terms(Misfire::Skip, None));
            assert_eq!(story.claims(at(instant + late)).len(), asked, "{schedule}, {late} s late");
            assert_eq!(story.missed, u32::from(asked == 0));
        }
    }
}

const EACH_OVERLAP: [Overlap; 4] =
    [Overlap::Skip, Overlap::QueueOne, Overlap::CancelPrevious, Overlap::Allow { max: 2 }];

/// The runs that each misfire policy claims for a missed minute, and the number of missed ones.
fn after_a_missed_minute() -> [(Misfire, u32, Claims); 2] {
    [(Misfire::Skip, 1, vec![]), (Misfire::FireOnce, 0, minutes(1..=1, CatchUp::Yes))]
}

#[test]
fn unclaimed_run_is_late_within_its_grace_then_missed() {
    for overlap in EACH_OVERLAP {
        for (misfire, missed, asked) in after_a_missed_minute() {
            let mut story = Story::led("* * * * *", JobTerms { overlap, ..terms(misfire, None) });
            story.claims(at(60));
            story.answer(at(61), run_at(60), ClaimOutcome::Failed);
            assert_eq!(story.claims(at(89)), [(run_at(60), CatchUp::No)], "{overlap:?}, {misfire:?}");
            story.answer(at(90), run_at(60), ClaimOutcome::Failed);
            assert_eq!(story.claims(at(91)), asked, "{overlap:?}, {misfire:?}");
            assert_eq!(story.missed, missed, "{overlap:?}, {misfire:?}");
        }
    }
}

#[test]
fn claim_in_doubt_that_is_late_is_missed() {
    for overlap in EACH_OVERLAP {
        for (misfire, missed, asked) in after_a_missed_minute() {
            let mut story = Story::led("* * * * *", JobTerms { overlap, ..terms(misfire, None) });
            let commands = story.tick(at(60));
            let until = at(90);
            assert!(
                matches!(&commands[..], [Command::Claim(due)] if due.request.not_after == Some(until)),
                "{commands:?}"
            );
            story.in_doubt = true;
            story.answer(at(85), run_at(60), ClaimOutcome::Failed);
            assert_eq!(story.claims(at(95)), [(run_at(60), CatchUp::No)], "repeated until its fate is known");
            story.answer(at(96), run_at(60), ClaimOutcome::Answered(ClaimReply::Late));
            assert_eq!(story.claims(at(97)), asked, "{overlap:?}, {misfire:?}");
            assert_eq!(story.missed, missed, "{overlap:?}, {misfire:?}");
        }
    }
}

#[test]
fn run_that_waits_for_another_has_no_limit() {
    for overlap in [Overlap::QueueOne, Overlap::CancelPrevious] {
        let mut story = Story::led("0 12 * * *", JobTerms { overlap, ..terms(Misfire::Skip, Some(10)) });
        let noon = 12 * 3600;
        story.claims(at(noon));
        story.answer(at(noon), run_at(noon), ClaimOutcome::Answered(Busy { running: 1 }));
        let commands = story.tick(at(noon + 100));
        let claims = commands.iter().filter_map(claim).map(|due| (due.request.run, due.request.not_after));
        assert_eq!(claims.collect::<Vec<_>>(), [(run_at(noon), None)], "{overlap:?}");
    }
}

#[test]
fn catch_up_runs_and_the_first_on_time_run_queue() {
    for overlap in EACH_OVERLAP {
        let terms = JobTerms { overlap, ..terms(Misfire::FireAll { max: 2 }, Some(10)) };
        let mut story = Story::led("* * * * *", terms);
        let claims = |story: &mut Story, now| {
            let commands = story.tick(now);
            let claims = commands.iter().filter_map(claim).map(|due| (due.request.run, due.request.overlap));
            let claims: Vec<_> = claims.collect();
            for (run, _) in &claims {
                story.answer(now, *run, granted());
            }
            claims
        };
        let mut planned = Vec::new();
        for now in [320, 320, 360, 420] {
            planned.extend(claims(&mut story, at(now)));
        }
        let follower_queues = !matches!(overlap, Overlap::Allow { .. });
        let policy = |queues| if queues { overlap.queue_rule() } else { overlap.rule() };
        let expected = [(240, true), (300, true), (360, follower_queues), (420, false)];
        let expected: Vec<_> = expected.map(|(at, queues)| (run_at(at), policy(queues))).into();
        assert_eq!(planned, expected, "{overlap:?}");
    }
}

#[test]
fn overlap_policy_applies_from_the_second_on_time_run() {
    for (overlap, reason, kept) in [
        (Overlap::Skip, SkipReason::Overlap, vec![360]),
        (Overlap::Allow { max: 2 }, SkipReason::Overlap, vec![360, 420]),
        (Overlap::QueueOne, SkipReason::Queue, vec![480]),
    ] {
        let terms = JobTerms { overlap, ..terms(Misfire::FireAll { max: 2 }, Some(10)) };
        let mut story = Story::led("* * * * *", terms);
        story.claims(at(330));
        story.answer(at(330), run_at(240), granted());
        story.claims(at(330));
        for now in [360, 420, 480] {
            story.answer(at(now), run_at(300), ClaimOutcome::Answered(Busy { running: 1 }));
            story.tick(at(now));
        }
        let entries = &story.planner.jobs[&name()].pending.entries;
        let waiting = entries.iter().filter(|entry| entry.skip.is_none()).map(|entry| entry.run);
        let waiting: Vec<_> = waiting.collect();
        let rows: Vec<_> = entries.iter().filter_map(|entry| entry.skip).collect();
        assert!(rows.iter().all(|row| row.reason == reason), "{overlap:?}: {rows:?}");
        let skips: u32 = rows.iter().map(|row| row.count).sum();
        let expected: Vec<_> = std::iter::once(300).chain(kept.iter().copied()).map(run_at).collect();
        assert_eq!(waiting, expected, "{overlap:?}");
        assert_eq!(skips as usize, 3 - kept.len(), "{overlap:?}");
    }
}

/// Creates a planner whose jobs are all one week behind, except for one that runs every second.
fn a_week_behind(jobs: usize, schedule: &str, terms: JobTerms) -> (Planner, LockName, UtcTime) {
    const WEEK: u64 = 7 * 86_400;
    let every_second = LockName::new("zz-every-second").unwrap();
    let mut planner = super::planner();
    planner.elected();
    for number in 0..jobs {
        let name = LockName::new(format!("job-{number:04}")).unwrap();
        planner.add(at(0), name.clone(), Schedule::cron(schedule).unwrap(), terms.clone());
        register(&mut planner, &name, at(0));
    }
    planner.add(at(0), every_second.clone(), Schedule::cron("* * * * * *").unwrap(), JobTerms::default());
    register(&mut planner, &every_second, at(WEEK - 1));
    (planner, every_second, at(WEEK))
}

#[test]
fn tick_is_bounded_and_plans_on_time_runs_first() {
    let jobs = if std::env::var_os("LOCK_LONG").is_some() { 2_000 } else { 100 };
    let all = Misfire::FireAll { max: u32::MAX };
    for (schedule, terms, one_job) in [
        ("CRON_TZ=Europe/Berlin * * * * *", terms(Misfire::FireOnce, None), 1_100),
        ("CRON_TZ=Europe/Berlin * 9-16 * * MON-FRI", terms(Misfire::FireOnce, Some(600)), 1_300),
        ("* * * * * *", terms(Misfire::FireOnce, Some(86_400)), 1_100),
        ("* * * * * *", terms(all, Some(86_400)), 3_100),
    ] {
        let (mut planner, every_second, now) = a_week_behind(jobs, schedule, terms);
        let (mut ticks, mut searches, mut most) = (0, 0, 0);
        while planner.jobs.values().any(|job| job.next.is_some_and(|next| next <= now)) {
            let (mut budget, mut out) = (Budget::default(), Vec::new());
            planner.tick(now, u32::MAX, &mut budget, &mut out);
            let is_planned = out.iter().filter_map(claim).any(|due| due.request.job.name == every_second);
            assert_eq!(is_planned, ticks == 0, "{schedule}: the first tick plans what is on time");
            assert!(budget.spent > 0, "{schedule}: each tick makes progress");
            if planner.wake_at().is_some_and(|wake| wake > now) {
                assert!(
                    planner.jobs.values().all(|job| job.behind.is_none()),
                    "{schedule}: remaining jobs are due"
                );
            }
            (ticks, searches, most) = (ticks + 1, searches + budget.spent, most.max(budget.spent));
        }
        println!(
            "{jobs} jobs {schedule}: {ticks} ticks, {} searches for a job, at most {most} in a tick",
            searches / jobs
        );
        assert!(most <= 2_000 + one_job, "{schedule}: {most} searches in one tick");
        assert!(searches <= jobs * one_job, "{schedule}: {searches} searches for {jobs} jobs");
    }
}

#[test]
fn look_back_over_years_finds_the_latest_instants() {
    let now = UtcTime::from_millis(1_774_746_000_123);
    let schedules = [
        "* * * * * *",
        "*/7 * * * *",
        "0 12 * * *",
        "* 9-16 * * MON-FRI",
        "0 0 29 2 *",
        "0-4 0 1 1 *",
        "*/10 * * * * * 2025",
        "@every 90s",
        "@at 2025-06-01T00:00:00Z",
        "CRON_TZ=Europe/Berlin 30 2 * * *",
        "CRON_TZ=Europe/Berlin */10 2 * * *",
    ];
    for text in schedules {
        for days in [1, 9, 500].into_iter().filter(|days| *days == 1 || text != "* * * * * *") {
            let back = Duration::from_secs(days * 86_400);
            let schedule = Schedule::cron(text).unwrap();
            let cursor = now - back;
            let all: Vec<_> = schedule.after(cursor).take_while(|at| *at <= now).collect();
            let Some(distance) = all.get(1).map(|second| second.since(all[0])) else { continue };
            for max in [1, 2, 1_000] {
                let terms = terms(Misfire::FireAll { max }, None);
                let found =
                    missed::look_back(&schedule, &terms, cursor, now, distance, &mut Budget::default());
                let kept = all.len().min(max as usize);
                let started: Vec<_> = found.start.iter().map(|due| due.at).collect();
                assert_eq!(started, all[all.len() - kept..], "{text}, {back:?}, {max}");
                let missed = all.len() - kept;
                let row = found.skipped;
                let count = row.map_or(0, |row| row.count as usize);
                assert_eq!(count, missed.min(1_000), "{text}, {back:?}, {max}");
                if let Some(row) = row {
                    assert_eq!(row.first, all[0], "{text}, {back:?}, {max}");
                    assert!(row.last >= all[missed - 1] && row.last < all[missed], "{text}: {row:?}");
                }
                assert_eq!(found.next, schedule.next_after(now));
            }
        }
    }
}

/// Returns the claims of the next tick: the time of a scheduled run, or `None` for a backfill
/// run.
fn claimed_instants(planner: &mut Planner, now: UtcTime) -> Vec<Option<UtcTime>> {
    let mut out = Vec::new();
    planner.tick(now, u32::MAX, &mut Budget::default(), &mut out);
    out.iter().filter_map(claim).map(|due| due.request.run.scheduled()).collect()
}

#[test]
fn missed_instants_precede_the_backfill() {
    let mut planner = super::planner();
    let schedule = Schedule::cron("0 * * * *").unwrap();
    let terms = JobTerms { placement: Placement::Leader, ..JobTerms::default() };
    planner.add(at(0), name(), schedule.clone(), terms);
    let backfill = PlannedBackfill { id: Uuid::from_u128(7), schedule, mark: at(0), last: at(3600) };
    planner.backfills_read(&name(), vec![backfill]);
    planner.elected();
    const NOON: u64 = 12 * 3600;
    let now = at(NOON + 10);
    assert_eq!(claimed_instants(&mut planner, now), [], "the watermark is not known");
    register(&mut planner, &name(), at(NOON - 2 * 3600));
    let first = claimed_instants(&mut planner, now);
    assert!(first.iter().all(Option::is_some), "missed runs must come first: {first:?}");
}
