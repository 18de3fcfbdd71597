//! The days of clock changes, with results computed by hand.

use crate::support::runs;
use lock_cron::{DstPolicy, Fold, Gap};

const DEFAULT: DstPolicy = DstPolicy { gap: Gap::RunOnce, fold: Fold::First };

fn gap(gap: Gap) -> DstPolicy {
    DstPolicy { gap, ..DEFAULT }
}

fn fold(fold: Fold) -> DstPolicy {
    DstPolicy { fold, ..DEFAULT }
}

/// 29 March 2026, 02:00 +01:00 is 03:00 +02:00.
fn berlin_in_spring(text: &str, policy: DstPolicy) -> Vec<String> {
    runs(text, "Europe/Berlin", policy, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")
}

/// 25 October 2026, 03:00 +02:00 is 02:00 +01:00.
fn berlin_in_autumn(text: &str, policy: DstPolicy) -> Vec<String> {
    runs(text, "Europe/Berlin", policy, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")
}

#[test]
fn fixed_time_in_the_gap_runs_once_right_after_it() {
    assert_eq!(berlin_in_spring("30 2 * * *", DEFAULT), ["03-29 03:00:00 +02:00"]);
    assert_eq!(berlin_in_spring("0,30 2 * * *", DEFAULT), ["03-29 03:00:00 +02:00"]);
    assert_eq!(berlin_in_spring("10-40/10 2 * * *", DEFAULT), ["03-29 03:00:00 +02:00"]);
    assert_eq!(berlin_in_spring("*/10 30 2 * * *", DEFAULT), ["03-29 03:00:00 +02:00"]);
}

#[test]
fn runs_at_the_same_instant_after_the_gap_merge() {
    assert_eq!(berlin_in_spring("0 2,3 * * *", DEFAULT), ["03-29 03:00:00 +02:00"]);
    assert_eq!(
        berlin_in_spring("30 1-3 * * *", DEFAULT),
        ["03-29 01:30:00 +01:00", "03-29 03:00:00 +02:00", "03-29 03:30:00 +02:00"]
    );
    assert_eq!(berlin_in_spring("30 2,3 * * *", gap(Gap::ShiftForward)), ["03-29 03:30:00 +02:00"]);
}

#[test]
fn fixed_time_in_the_gap_can_be_skipped_or_shifted() {
    assert!(berlin_in_spring("0,30 2 * * *", gap(Gap::Skip)).is_empty());
    assert_eq!(
        berlin_in_spring("0,30 2 * * *", gap(Gap::ShiftForward)),
        ["03-29 03:00:00 +02:00", "03-29 03:30:00 +02:00"]
    );
    assert_eq!(
        berlin_in_spring("15 2 * * *", gap(Gap::ShiftForward)),
        berlin_in_spring("15 3 * * *", DEFAULT),
    );
}

#[test]
fn hour_before_the_gap_does_not_run_twice() {
    assert_eq!(berlin_in_spring("30 1 * * *", DEFAULT), ["03-29 01:30:00 +01:00"]);
    assert_eq!(berlin_in_spring("0 3 * * *", DEFAULT), ["03-29 03:00:00 +02:00"]);
}

#[test]
fn repeated_fixed_time_runs_in_the_first_pass() {
    assert_eq!(berlin_in_autumn("30 2 * * *", DEFAULT), ["10-25 02:30:00 +02:00"]);
    assert_eq!(
        berlin_in_autumn("0,30 1-3 * * *", DEFAULT),
        [
            "10-25 01:00:00 +02:00",
            "10-25 01:30:00 +02:00",
            "10-25 02:00:00 +02:00",
            "10-25 02:30:00 +02:00",
            "10-25 03:00:00 +01:00",
            "10-25 03:30:00 +01:00",
        ]
    );
}

#[test]
fn second_pass_or_both_can_be_selected() {
    assert_eq!(berlin_in_autumn("30 2 * * *", fold(Fold::Last)), ["10-25 02:30:00 +01:00"]);
    assert_eq!(
        berlin_in_autumn("30 2 * * *", fold(Fold::Both)),
        ["10-25 02:30:00 +02:00", "10-25 02:30:00 +01:00"]
    );
}

#[test]
fn star_follows_real_time_through_both_passes() {
    let policies = [DEFAULT, fold(Fold::Last), fold(Fold::Both), gap(Gap::ShiftForward)];
    for policy in policies {
        assert_eq!(
            berlin_in_autumn("*/30 2 * * *", policy),
            [
                "10-25 02:00:00 +02:00",
                "10-25 02:30:00 +02:00",
                "10-25 02:00:00 +01:00",
                "10-25 02:30:00 +01:00"
            ]
        );
        assert_eq!(berlin_in_autumn("0 * * * *", policy).len(), 25);
        assert_eq!(berlin_in_spring("0 * * * *", policy).len(), 23);
        assert!(berlin_in_spring("*/30 2 * * *", policy).is_empty());
        assert!(berlin_in_spring("H/15 2 * * *", policy).is_empty());
    }
}

#[test]
fn lord_howe_changes_by_half_an_hour() {
    // 4 October 2026, 02:00 +10:30 is 02:30 +11:00; 5 April 2026, 02:00 +11:00 is 01:30 +10:30.
    let spring =
        |text| runs(text, "Australia/Lord_Howe", DEFAULT, "2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z");
    let autumn = |text, policy| {
        runs(text, "Australia/Lord_Howe", policy, "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z")
    };
    assert_eq!(spring("15 2 * * *"), ["10-04 02:30:00 +11:00"]);
    assert_eq!(spring("15,45 2 * * *"), ["10-04 02:30:00 +11:00", "10-04 02:45:00 +11:00"]);
    assert_eq!(spring("*/15 2 * * *"), ["10-04 02:30:00 +11:00", "10-04 02:45:00 +11:00"]);
    assert_eq!(autumn("15,45 1 * * *", DEFAULT), ["04-05 01:15:00 +11:00", "04-05 01:45:00 +11:00"]);
    assert_eq!(autumn("15,45 1 * * *", fold(Fold::Last)), ["04-05 01:15:00 +11:00", "04-05 01:45:00 +10:30"]);
    assert_eq!(
        autumn("*/30 1 * * *", DEFAULT),
        ["04-05 01:00:00 +11:00", "04-05 01:30:00 +11:00", "04-05 01:30:00 +10:30"]
    );
}

#[test]
fn santiago_skips_a_midnight_and_repeats_a_last_hour() {
    // 6 September 2026, 00:00 -04:00 is 01:00 -03:00; 5 April 2026, 00:00 -03:00 is 23:00 -04:00 of the 4th.
    let spring =
        |text| runs(text, "America/Santiago", DEFAULT, "2026-09-05T12:00:00Z", "2026-09-06T12:00:00Z");
    let autumn =
        |text, policy| runs(text, "America/Santiago", policy, "2026-04-04T12:00:00Z", "2026-04-05T12:00:00Z");
    assert_eq!(spring("@daily"), ["09-06 01:00:00 -03:00"]);
    assert_eq!(spring("0 0 6 9 *"), ["09-06 01:00:00 -03:00"]);
    assert_eq!(spring("0 0 * * SUN"), ["09-06 01:00:00 -03:00"]);
    assert_eq!(autumn("30 23 * * *", DEFAULT), ["04-04 23:30:00 -03:00"]);
    assert_eq!(autumn("30 23 4 * *", fold(Fold::Last)), ["04-04 23:30:00 -04:00"]);
    assert_eq!(autumn("@daily", fold(Fold::Both)), ["04-05 00:00:00 -04:00"]);
}

#[test]
fn cairo_changes_at_midnight_too() {
    // 24 April 2026, 00:00 +02:00 is 01:00 +03:00; 30 October 2026, 00:00 +03:00 is 23:00 +02:00 of the 29th.
    let spring = |text| runs(text, "Africa/Cairo", DEFAULT, "2026-04-23T12:00:00Z", "2026-04-24T12:00:00Z");
    let autumn =
        |text, policy| runs(text, "Africa/Cairo", policy, "2026-10-29T12:00:00Z", "2026-10-30T12:00:00Z");
    assert_eq!(spring("0 0 * * *"), ["04-24 01:00:00 +03:00"]);
    assert_eq!(spring("59 0 * * FRIL"), ["04-24 01:00:00 +03:00"]);
    assert_eq!(autumn("0 23 * * *", DEFAULT), ["10-29 23:00:00 +03:00"]);
    assert_eq!(autumn("0 23 * * *", fold(Fold::Last)), ["10-29 23:00:00 +02:00"]);
    assert_eq!(autumn("0 0 * * *", DEFAULT), ["10-30 00:00:00 +02:00"]);
}

#[test]
fn samoa_had_no_30_december_2011() {
    // The 29th ended at 24:00 -10:00, which was 31 December 00:00 +14:00.
    let apia =
        |text, policy| runs(text, "Pacific/Apia", policy, "2011-12-29T10:00:00Z", "2011-12-31T10:00:00Z");
    let (once, shifted) = (DEFAULT, gap(Gap::ShiftForward));
    assert_eq!(
        apia("0 2 * * *", once),
        ["12-29 02:00:00 -10:00", "12-31 00:00:00 +14:00", "12-31 02:00:00 +14:00"]
    );
    assert_eq!(apia("0 2 * * *", gap(Gap::Skip)), ["12-29 02:00:00 -10:00", "12-31 02:00:00 +14:00"]);
    assert_eq!(apia("0 2 * * *", shifted), ["12-29 02:00:00 -10:00", "12-31 02:00:00 +14:00"]);
    assert_eq!(apia("0 2 30 12 *", once), ["12-31 00:00:00 +14:00"]);
    assert_eq!(apia("0 2 30 12 *", shifted), ["12-31 02:00:00 +14:00"]);
    assert!(apia("0 2 30 12 *", gap(Gap::Skip)).is_empty());
    assert_eq!(apia("0 * * * *", once).len(), 48);
    assert!(apia("* * 30 12 *", once).is_empty());
}

#[test]
fn only_a_star_follows_real_time() {
    for (pattern, on_a_day_of_25_hours) in [
        ("0 * * * *", 25),
        ("0 0-23 * * *", 24),
        ("0 0 0/1 * * ?", 24),
        ("H/15 2 * * *", 8),
        ("H(0-29)/15 2 * * *", 2),
    ] {
        assert_eq!(berlin_in_autumn(pattern, DEFAULT).len(), on_a_day_of_25_hours, "{pattern}");
    }
}
