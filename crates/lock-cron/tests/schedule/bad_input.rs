//! Invalid texts: rejected with the position of the error. No text hangs or panics.

use crate::support::instant;
use lock_cron::{Schedule, ScheduleError, ScheduleErrorKind as Kind, UtcTime, schedule::Field};
use lock_testkit::{Seed, Stream};
use std::{
    error::Error,
    time::{Duration, Instant},
};

fn refused(text: &str) -> ScheduleError {
    match Schedule::cron(text) {
        Ok(schedule) => panic!("`{text}` is accepted as {schedule:?}"),
        Err(error) => error,
    }
}

#[test]
fn invalid_field_is_named_marked_and_quoted() {
    for (text, field, wrong, advice) in [
        ("60 * * * *", Field::Minute, "60", "use 0-59"),
        ("* 24 * * *", Field::Hour, "24", "use 0-23"),
        ("* * 0 * *", Field::DayOfMonth, "0", "use 1-31"),
        ("* * 32W * *", Field::DayOfMonth, "32", "use 1-31"),
        ("* * * 13 *", Field::Month, "13", "use 1-12 or JAN-DEC"),
        ("* * * * 8", Field::DayOfWeek, "8", "use 0-7, SUN-SAT"),
        ("61 * * * * *", Field::Second, "61", "use 0-59"),
        ("0 0 0 1 1 * 1969", Field::Year, "1969", "use 1970-5000"),
        ("0 0 0 1 1 * 99999999999999999999", Field::Year, "99999999999999999999", "out of range"),
        ("0 9,25 * * *", Field::Hour, "25", "use 0-23"),
        ("0 9-25 * * *", Field::Hour, "25", "use 0-23"),
        ("MAY * * * *", Field::Minute, "MAY", "use 0-59"),
        ("* * * MON *", Field::Month, "MON", "use 1-12 or JAN-DEC"),
        ("* * * * JAN", Field::DayOfWeek, "JAN", "SUN-SAT"),
        ("* * * * MONDAY", Field::DayOfWeek, "MONDAY", "SUN-SAT"),
        ("* * * * SUNMON", Field::DayOfWeek, "SUNMON", "SUN-SAT"),
        ("0 22-2 * * *", Field::Hour, "22-2", "use `22-23,0-2`"),
        ("0 0 * * FRI-MON", Field::DayOfWeek, "FRI-MON", "goes backwards"),
        ("*/0 * * * *", Field::Minute, "0", "use 1 or more"),
        ("*/x * * * *", Field::Minute, "x", "use a number"),
        ("*/ * * * *", Field::Minute, "", "use a number"),
        ("*/5/5 * * * *", Field::Minute, "5/5", "use a number"),
        ("*/90 * * * *", Field::Minute, "*/90", "or `@every`"),
        ("0-10/20 * * * *", Field::Minute, "0-10/20", "or `@every`"),
        ("0,,5 * * * *", Field::Minute, "0,,5", "an empty item"),
        (", * * * *", Field::Minute, ",", "an empty item"),
        ("? * * * *", Field::Minute, "?", "use 0-59"),
        ("L * * * *", Field::Minute, "L", "use 0-59"),
        ("-5 * * * *", Field::Minute, "", "use 0-59"),
        ("+5 * * * *", Field::Minute, "+5", "use 0-59"),
        ("1.5 * * * *", Field::Minute, "1.5", "use 0-59"),
        ("１ * * * *", Field::Minute, "１", "use 0-59"),
        ("0 0 L-3 * *", Field::DayOfMonth, "L", "`L`, `LW` or `15W`"),
        ("0 0 L,LW * *", Field::DayOfMonth, "L,LW", "use a job for each"),
        ("0 0 W * *", Field::DayOfMonth, "W", "`15W`"),
        ("0 0 15W/2 * *", Field::DayOfMonth, "15W/2", "remove the `/`"),
        ("0 0 * * L", Field::DayOfWeek, "L", "`FRIL`"),
        ("0 0 * * MON#6", Field::DayOfWeek, "6", "use 1-5"),
        ("0 0 * * MON#", Field::DayOfWeek, "", "use 1-5"),
        ("0 0 * * 1-5#2", Field::DayOfWeek, "1-5", "SUN-SAT"),
        ("0 0 * * ++1", Field::DayOfWeek, "+1", "SUN-SAT"),
        ("0 0 * * +", Field::DayOfWeek, "+", "an empty item"),
        ("H(30-10) * * * *", Field::Minute, "H(30-10)", "goes backwards"),
        ("H(0-60) * * * *", Field::Minute, "60", "use 0-59"),
        ("H(5) * * * *", Field::Minute, "H(5)", "`H(0-29)`"),
        ("H(0-29 * * * *", Field::Minute, "H(0-29", "`H(0-29)`"),
        ("X(0-29) * * * *", Field::Minute, "X(0-29)", "`H(0-29)`"),
        ("H/0 * * * *", Field::Minute, "0", "use 1 or more"),
        ("0 0 0 1 1 * H", Field::Year, "H", "use 1970-5000"),
    ] {
        let error = refused(text);
        assert_eq!((error.kind(), error.field()), (Kind::InvalidField, Some(field)), "{error:#}");
        assert_eq!(&text[error.range()], wrong, "{error:#}");
        let (clause, marked) = (error.to_string(), format!("{error:#}"));
        assert!(clause.contains(&format!("`{text}`")) && clause.contains(&field.to_string()), "{clause}");
        assert!(clause.contains(advice), "{clause}");
        assert!(
            marked.contains(&format!("\n  {text}\n")) && marked.ends_with(&format!("^ {field}")),
            "{marked}"
        );
    }
}

#[test]
fn mark_is_below_the_invalid_text() {
    assert_eq!(
        format!("{:#}", refused("0 2 * * MON-FRO")),
        "the day of the week `FRO` in `0 2 * * MON-FRO` is not a valid value: use 0-7, SUN-SAT, `MON#2` or `FRIL`\n  \
         0 2 * * MON-FRO\n              ^^^ day of the week"
    );
    let wide = format!("{:#}", refused("ä\t2 * * x"));
    assert!(wide.ends_with("\n  ä 2 * * x\n  ^ minute"), "{wide}");
}

#[test]
fn errors_suggest_a_correction() {
    for (text, kind, wrong, advice) in [
        ("", Kind::Empty, "", "as in `0 2 * * *`"),
        (" \t\n", Kind::Empty, "", "as in `0 2 * * *`"),
        ("CRON_TZ=Europe/Berlin", Kind::Empty, "", "as in `0 2 * * *`"),
        ("0 2 * *", Kind::FieldCount, "0 2 * *", "has 4 fields, not 5 to 7"),
        ("0 0 2 * * * * *", Kind::FieldCount, "0 0 2 * * * * *", "has 8 fields, not 5 to 7"),
        (
            "0 2 * * * # nightly",
            Kind::FieldCount,
            "# nightly",
            "the comment `# nightly` in `0 2 * * * # nightly` is not part",
        ),
        ("nonsense", Kind::FieldCount, "nonsense", "the pattern `nonsense` has 1 field, not 5 to 7"),
        ("@reboot", Kind::UnknownMacro, "@reboot", "@hourly"),
        ("@daily 5", Kind::UnknownMacro, "@daily 5", "@hourly"),
        ("@", Kind::UnknownMacro, "@", "@hourly"),
        ("@every", Kind::InvalidPeriod, "", "use `@every 1h30m`"),
        ("@every 5", Kind::InvalidPeriod, "5", "use `@every 1h30m`"),
        ("@every 1d", Kind::InvalidPeriod, "1d", "use `@every 1h30m`"),
        ("@every 0s", Kind::InvalidPeriod, "0s", "is zero"),
        ("@every -5m", Kind::InvalidPeriod, "-5m", "shorter than a second"),
        ("@every 999ms", Kind::InvalidPeriod, "999ms", "shorter than a second"),
        ("@every 999999999h", Kind::InvalidPeriod, "999999999h", "longer than 100 years"),
        ("@at tomorrow", Kind::InvalidInstant, "tomorrow", "use `@at 2030-01-31T09:00:00Z`"),
        ("@at 2030-01-31T09:00:00", Kind::InvalidInstant, "2030-01-31T09:00:00", "use `@at"),
        ("CRON_TZ=Europe/Berln 0 2 * * *", Kind::UnknownZone, "Europe/Berln", "such as `Europe/Berlin`"),
        ("CRON_TZ=berlin 0 2 * * *", Kind::UnknownZone, "berlin", "use `Europe/Berlin`"),
        ("TZ= 0 2 * * *", Kind::UnknownZone, "", "IANA"),
        ("TZ=Local 0 2 * * *", Kind::UnknownZone, "Local", "IANA"),
        ("TZ=../../etc/passwd 0 2 * * *", Kind::UnknownZone, "../../etc/passwd", "IANA"),
        (
            "TZ=+02:00 0 2 * * *",
            Kind::UnknownZone,
            "+02:00",
            "is an offset, which does not follow clock changes: use a name from the IANA",
        ),
        ("TZ=UTC+2 0 2 * * *", Kind::UnknownZone, "UTC+2", "is an offset"),
        (
            "TZ=CEST 0 2 * * *",
            Kind::UnknownZone,
            "CEST",
            "abbreviations do not follow clock changes: use a name from the IANA",
        ),
    ] {
        let error = refused(text);
        assert_eq!((error.kind(), error.field()), (kind, None), "{error:#}");
        assert_eq!(&text[error.range()], wrong, "{error:#}");
        assert!(error.to_string().contains(advice), "{error}");
        assert_eq!(error.text(), text);
    }
}

#[test]
fn wholly_invalid_text_is_quoted_once() {
    let zone = Schedule::cron("@daily").unwrap().in_tz("CEST").unwrap_err();
    for (error, begins) in [
        (refused("* * * *"), "the pattern `* * * *` has 4 fields"),
        (refused(" 0 0 31 2 * "), "the pattern `0 0 31 2 *` never runs"),
        (refused(""), "the schedule has no pattern"),
        (refused("CRON_TZ=UTC"), "the schedule in `CRON_TZ=UTC` has no pattern"),
        (zone, "the time zone `CEST` is unknown"),
    ] {
        assert!(error.to_string().starts_with(begins), "{error}");
    }
}

#[test]
fn unknown_and_conflicting_zones_are_refused() {
    let daily = Schedule::cron("@daily").unwrap();
    for name in ["", "Mars/Olympus", "Europe/Berlin ", "Europe/\0Berlin", "/etc/localtime"] {
        let error = daily.clone().in_tz(name).unwrap_err();
        assert_eq!((error.kind(), error.text()), (Kind::UnknownZone, name), "{error:#}");
    }
    let error = Schedule::cron("CRON_TZ=Asia/Tokyo @daily").unwrap().in_tz("Europe/Berlin").unwrap_err();
    assert_eq!(error.kind(), Kind::ConflictingZone);
    assert!(
        format!("{error:#}").ends_with("\n  CRON_TZ=Asia/Tokyo @daily\n          ^^^^^^^^^^"),
        "{error:#}"
    );
}

#[test]
fn invalid_numeric_periods_are_refused() {
    for period in [Duration::ZERO, Duration::from_nanos(999_999_999), Duration::MAX] {
        let error = Schedule::every(period).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidPeriod, "{error:#}");
    }
}

#[test]
fn cause_is_reported_once() {
    let error = refused("@every 1 fortnight");
    let cause = error.source().unwrap().to_string();
    assert!(!error.to_string().contains(&cause));
    assert_eq!(format!("{error:#}").matches(&cause).count(), 1);
}

#[test]
fn impossible_schedule_is_refused_within_50_ms() {
    for text in [
        "0 0 31 2 *",
        "0 0 30 FEB *",
        "0 0 31 4,6,9,11 *",
        "0 0 30W 2 *",
        "0 0 1 * +MON#2",
        "0 0 29 2 +1#1",
        "0 0 0 29 2 * 2026",
        "0 0 0 29 2 * 2021-2023",
        "0 0 0 29 2 * 2100",
        "0 0 0 29 2 +MON 2028",
        "* * * * 31 2 *",
        "H H 31 2 *",
    ] {
        // The fastest of several attempts, so that a busy machine does not matter.
        let took = (0..5).map(|_| {
            let began = Instant::now();
            assert!(Schedule::cron(text).is_err());
            began.elapsed()
        });
        let took = took.min().unwrap();
        println!("{text}: {took:?}");
        assert!(took < Duration::from_millis(50), "{text} takes {took:?}");
    }
    assert_eq!(refused("0 0 31 2 *").kind(), Kind::NeverRuns);
    assert!(refused("0 0 31 2 *").to_string().starts_with("the pattern `0 0 31 2 *`"));
}

#[test]
fn rare_or_ended_schedule_is_searched_within_50_ms() {
    let zone = "Europe/Berlin";
    for (text, run) in [
        ("0 0 29 2 +MON#5", Some("2044-02-28T23:00:00Z")),
        ("0 0 0 29 2 +SUN 2100-2400", Some("2128-02-28T23:00:00Z")),
        ("0 0 0 1 1 * 2020", None),
        ("0 0 0 1 1 * 5000", Some("4999-12-31T23:00:00Z")),
        ("* * * 29 2 +MON#5 2000-2030", None),
        ("30 2 29 3 +SUN#5", Some("2026-03-29T01:00:00Z")),
    ] {
        let schedule = Schedule::cron(text).unwrap().in_tz(zone).unwrap();
        let from = instant("2026-01-01T00:00:00Z");
        let took = (0..5).map(|_| {
            let began = Instant::now();
            assert_eq!(schedule.next_after(from).map(|run| run.to_string()).as_deref(), run, "{text}");
            began.elapsed()
        });
        let took = took.min().unwrap();
        println!("{text}: {took:?}");
        assert!(took < Duration::from_millis(50), "{text} takes {took:?}");
    }
}

const WORDS: [&str; 48] = [
    "*",
    "/",
    ",",
    "-",
    "?",
    "#",
    "L",
    "W",
    "H",
    "+",
    "(",
    ")",
    "@",
    "@every",
    "@at",
    "@daily",
    "CRON_TZ=",
    "TZ=",
    "UTC",
    "Europe/Berlin",
    "Pacific/Apia",
    "MON",
    "SUN",
    "JAN",
    "DEC",
    "THU",
    "JUL",
    "0",
    "1",
    "2",
    "5",
    "7",
    "12",
    "28",
    "31",
    "59",
    "60",
    "65535",
    "65536",
    "2026",
    "5000",
    "1h",
    "5m",
    "ß",
    "ſun",
    "\0",
    "\u{a0}",
    "🕑",
];

fn anything(random: &mut Stream) -> String {
    let mut text = String::new();
    let fields = 1 + random.below(8);
    for _ in 0..fields {
        for _ in 0..=random.below(3) {
            match random.below(12) {
                0 => text.extend(char::from_u32(random.below(0x11_0000) as u32)),
                _ => text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]),
            }
        }
        text.push_str(if random.chance(0.95) { " " } else { "\t" });
    }
    text
}

/// Returns a text that resembles a pattern, so that many of them are valid.
fn likely(random: &mut Stream) -> String {
    let mut text = if random.chance(0.2) { "TZ=Europe/Berlin ".to_owned() } else { String::new() };
    for _ in 0..5 + random.below(3) {
        text += match random.chance(0.9) {
            true => ["*", "1", "2,3", "*/2", "H", "1-4", "H/2"][random.below(7) as usize],
            false => ["L", "1#2", "LW", "?", "+1", "2026-2030"][random.below(6) as usize],
        };
        text.push(' ');
    }
    text
}

#[test]
fn no_text_panics_or_hangs() {
    let mut random = Seed::of_this_run().stream();
    let mut taken = 0;
    let began = Instant::now();
    for round in 0..120_000 {
        let text = if round % 2 == 0 { anything(&mut random) } else { likely(&mut random) };
        match Schedule::cron(&text) {
            Ok(schedule) => {
                taken += 1;
                assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule, "{text:?}");
                let millis = [0, 1, u64::MAX, random.number(), 1_774_746_000_000];
                for after in millis.map(UtcTime::from_millis) {
                    let next = schedule.next_after(after);
                    assert!(next.is_none_or(|next| next > after), "{text:?} after {after}: {next:?}");
                }
            }
            Err(error) => {
                assert!(text.get(error.range()).is_some(), "{text:?} {error:?}");
                assert!(error.to_string().lines().count() == 1, "{error}");
                assert_eq!(error.text(), text);
            }
        }
    }
    println!("{taken} of 120000 texts are valid; {:?}", began.elapsed());
    assert!(taken > 20_000);
}

#[test]
fn overlong_text_is_refused_and_not_quoted() {
    let error = refused(&"0 ".repeat(1 << 20));
    assert_eq!(error.kind(), Kind::TooLong);
    assert!(format!("{error:#}").len() < 400);
}
