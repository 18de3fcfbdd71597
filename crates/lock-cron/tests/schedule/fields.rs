//! The meaning of the fields of a pattern and of the words after `@`.

use crate::support::{first, instant};
use lock_cron::{Schedule, UtcTime};
use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

#[test]
fn last_day_and_workdays_of_a_month() {
    assert_eq!(first("0 0 L * *", 3), ["2026-01-31 00:00", "2026-02-28 00:00", "2026-03-31 00:00"]);
    assert_eq!(first("0 0 LW * *", 3), ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-31 00:00"]);
    assert_eq!(first("0 0 15,L * *", 3), ["2026-01-15 00:00", "2026-01-31 00:00", "2026-02-15 00:00"]);
    // 1 February, 1 March and 15 March are Sundays. 1 August is a Saturday, and the last workday of July does not
    // count.
    assert_eq!(first("0 0 1W 2,3,8 *", 3), ["2026-02-02 00:00", "2026-03-02 00:00", "2026-08-03 00:00"]);
    assert_eq!(first("0 0 15W 1-3 *", 3), ["2026-01-15 00:00", "2026-02-16 00:00", "2026-03-16 00:00"]);
    assert_eq!(first("0 0 31W * *", 3), ["2026-01-30 00:00", "2026-03-31 00:00", "2026-05-29 00:00"]);
}

#[test]
fn nth_and_last_weekday_of_a_month() {
    assert_eq!(first("0 9 * * MON#1", 2), ["2026-01-05 09:00", "2026-02-02 09:00"]);
    assert_eq!(first("0 9 * * fri#5", 2), ["2026-01-30 09:00", "2026-05-29 09:00"]);
    assert_eq!(first("0 9 * * 5L", 2), ["2026-01-30 09:00", "2026-02-27 09:00"]);
    assert_eq!(first("0 9 * * SUNL", 2), first("0 9 * * 7L", 2));
    assert_eq!(first("0 9 * * 0#2,TUE", 3), ["2026-01-06 09:00", "2026-01-11 09:00", "2026-01-13 09:00"]);
}

#[test]
fn sunday_is_0_and_7_and_monday_is_1() {
    for text in ["0 0 * * 0", "0 0 * * 7", "0 0 * * SUN", "0 0 * * 7-7", "@weekly"] {
        assert_eq!(first(text, 2), ["2026-01-04 00:00", "2026-01-11 00:00"], "{text}");
    }
    for text in ["0 0 * * 5-7", "0 0 * * FRI-SUN", "0 0 * * 5,6,0"] {
        assert_eq!(first(text, 3), ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"], "{text}");
    }
    assert_eq!(first("0 0 * * MON", 1), ["2026-01-05 00:00"]);
    assert_eq!(first("0 0 * * 1/2", 9), first("0 0 * * MON,WED,FRI", 9));
    assert_eq!(first("0 0 * * */7", 3), first("0 0 * * SUN", 3));
}

#[test]
fn days_match_either_or_both_with_a_plus() {
    assert_eq!(first("0 0 13 * FRI", 3), ["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00"]);
    assert_eq!(first("0 0 13 * +FRI", 2), ["2026-02-13 00:00", "2026-03-13 00:00"]);
    assert_eq!(first("0 0 13 * ?", 1), first("0 0 13 * *", 1));
    assert_eq!(first("0 0 ? * 5", 1), first("0 0 * * 5", 1));
    assert_eq!(first("0 0 */1 * 5", 3), first("0 0 * * 5", 3), "every day is not a restriction");
}

#[test]
fn seconds_come_first_and_years_last() {
    assert_eq!(first("30 0 0 1 1 *", 1), ["2026-01-01 00:00:30Z"]);
    assert_eq!(
        first("*/20 0 0 * * *", 3),
        ["2026-01-01 00:00", "2026-01-01 00:00:20Z", "2026-01-01 00:00:40Z"]
    );
    assert_eq!(first("0 0 0 1 1 * 2026-2028/2", 5), ["2026-01-01 00:00", "2028-01-01 00:00"]);
    assert!(first("0 0 0 1 1 * 2025", 1).is_empty(), "valid, but in the past");
    assert_eq!(first("0 0 0 29 2 * 2000-2099", 1), ["2028-02-29 00:00"]);
}

#[test]
fn lists_ranges_and_steps() {
    assert_eq!(first("5/20 0 * * *", 3), ["2026-01-01 00:05", "2026-01-01 00:25", "2026-01-01 00:45"]);
    assert_eq!(first("1-5/2 0 * * *", 3), ["2026-01-01 00:01", "2026-01-01 00:03", "2026-01-01 00:05"]);
    assert_eq!(first("3,1-2 0 * * *", 3), ["2026-01-01 00:01", "2026-01-01 00:02", "2026-01-01 00:03"]);
    assert_eq!(first("0 0 1 jan,MAR-apr *", 3), ["2026-01-01 00:00", "2026-03-01 00:00", "2026-04-01 00:00"]);
    assert_eq!(first("  007\t2  *   * * ", 1), ["2026-01-01 02:07"]);
    assert_eq!(first("*,5 0 1 1 *", 60).len(), 60);
}

#[test]
fn words_after_the_at_sign() {
    for (word, pattern) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
    ] {
        assert_eq!(Schedule::cron(word).unwrap(), Schedule::cron(pattern).unwrap(), "{word}");
    }
}

#[test]
fn periods_are_aligned_whenever_a_node_starts() {
    let schedule = Schedule::cron("@every 5m").unwrap();
    for start in ["2026-03-29T00:55:00Z", "2026-03-29T00:57:13.5Z", "2026-03-29T00:59:59.999Z"] {
        let next: Vec<_> = schedule.after(instant(start)).take(2).map(|run| run.to_string()).collect();
        assert_eq!(next, ["2026-03-29T01:00:00Z", "2026-03-29T01:05:00Z"]);
    }
    assert_eq!(first("@every 1h30m", 2), ["2026-01-01 00:00", "2026-01-01 01:30"]);
    for (period, text) in [(300_000, "@every 5m"), (1_500, "@every 1.5s"), (86_400_000, "@every 24h")] {
        let period = Duration::from_millis(period);
        assert_eq!(Schedule::every(period).unwrap(), Schedule::cron(text).unwrap());
        let shown = Schedule::every(period).unwrap().to_string();
        assert_eq!(shown.parse::<Schedule>().unwrap(), Schedule::every(period).unwrap(), "{shown}");
    }
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(schedule.next_after(before_1970), Some(UtcTime::from_millis(300_000)));
}

#[test]
fn instant_runs_once() {
    let at = instant("2030-01-31T09:00:00.25Z");
    let schedule = Schedule::at(at).in_tz("Asia/Tokyo").unwrap();
    assert_eq!(schedule.after(UtcTime::from_millis(0)).collect::<Vec<_>>(), [at]);
    assert_eq!(schedule.to_string(), "@at 2030-01-31T09:00:00.25Z");
    assert_eq!(schedule, Schedule::cron("@at 2030-01-31T18:00:00.25+09:00").unwrap());
    let longer = Schedule::at(at + Duration::from_micros(999));
    assert_eq!(
        (longer.to_string(), longer),
        (schedule.to_string(), schedule),
        "fractions of a millisecond are dropped"
    );
    let passed = Schedule::cron("@at 1969-12-31T23:59:59Z").unwrap();
    assert_eq!(passed.next_after(UtcTime::default()), None);
}

#[test]
fn zone_in_the_text_applies() {
    for text in [
        "CRON_TZ=Europe/Berlin 0 2 * * *",
        "TZ=Europe/Berlin   0 2 * * *",
        " CRON_TZ=europe/berlin 0 2 * * *",
    ] {
        let schedule = Schedule::cron(text).unwrap();
        assert_eq!(schedule, Schedule::cron("0 2 * * *").unwrap().in_tz("Europe/Berlin").unwrap());
        assert_eq!(schedule.in_tz("Europe/Berlin").unwrap().tz(), "Europe/Berlin");
    }
    assert_eq!(Schedule::cron("0 2 * * *").unwrap().tz(), "UTC");
    assert_eq!(first("CRON_TZ=Asia/Kolkata @daily", 1), ["2026-01-01 18:30"]);
}

#[test]
fn hash_spreads_jobs_and_keeps_their_times() {
    let minute = |text: &str, job: &str| {
        let schedule = Schedule::cron(text).unwrap().for_job(job).unwrap();
        schedule.next_after(instant("2026-01-01T00:00:00Z")).unwrap().as_millis() / 60_000 % 60
    };
    // Computed from the specification of the hash, so that no release moves the jobs of a fleet.
    assert_eq!([minute("H * * * *", "invoices"), minute("H * * * *", "reports")], [34, 44]);
    let jobs: Vec<_> = (0..400).map(|n| format!("job-{n}")).collect();
    let minutes = |text: &str| jobs.iter().map(|job| minute(text, job)).collect::<BTreeSet<_>>();
    assert_eq!(minutes("H * * * *").len(), 60);
    assert_eq!(minutes("H(10-19) * * * *"), (10..=19).collect());
    for job in &jobs {
        let schedule = Schedule::cron("H/15 H H * *").unwrap().for_job(job).unwrap();
        let runs: Vec<_> = schedule.after(instant("2026-02-01T00:00:00Z")).take(4).collect();
        assert!(
            runs.windows(2).all(|pair| pair[1].as_millis() - pair[0].as_millis() == 900_000),
            "{job} {runs:?}"
        );
        assert!(runs[3] < instant("2026-03-01T00:00:00Z"), "every month has the day of {job}");
    }
}

#[test]
fn hashes_of_fields_are_independent() {
    let pairs = |n: u32| {
        let schedule = Schedule::cron("H H * * *").unwrap().for_job(&n.to_string()).unwrap();
        let millis = schedule.next_after(instant("2026-01-01T00:00:00Z")).unwrap().as_millis() / 60_000;
        (millis / 60 % 24, millis % 60)
    };
    let distinct: BTreeSet<_> = (0..1000).map(pairs).collect();
    assert!(distinct.len() > 650, "of 1000 jobs {} have distinct times", distinct.len());
}

/// The system's database is preferred, so this looks at the bundled one directly.
#[cfg(feature = "bundled-zones")]
#[test]
fn zone_data_is_bundled_in_the_binary() {
    let bundled = jiff::tz::TimeZoneDatabase::bundled();
    assert!(bundled.get("Australia/Lord_Howe").is_ok());
}

#[test]
fn step_of_days_with_a_weekday_matches_either() {
    let january = ["01", "05", "11", "12", "19", "21", "26", "31"].map(|day| format!("2026-01-{day} 00:00"));
    assert_eq!(first("0 0 */10 * MON", 8), january);
    assert_eq!(first("0 0 * * 5/1", 3), ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-09 00:00"]);
}

#[test]
fn periods_are_described_with_whole_words() {
    for (text, words) in [
        ("@every 30m", "Every 30 minutes"),
        ("@every 1h", "Every hour"),
        ("@every 90m", "Every 1 hour 30 minutes"),
        ("@every 24h", "Every 24 hours"),
    ] {
        assert_eq!(Schedule::cron(text).unwrap().describe(), words);
    }
}
