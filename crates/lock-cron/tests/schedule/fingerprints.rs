//! Fingerprints show differences between nodes.

use crate::support::instant;
use lock_cron::{DstPolicy, Gap, Schedule};

#[test]
fn fingerprint_is_the_same_in_every_release() {
    let schedule = Schedule::cron("0 2 * * *").unwrap();
    let from = instant("2026-01-01T00:00:00Z");
    assert_eq!(schedule.fingerprint(from).to_string(), "28a373b66454669d-e849e8bb6ffe2567");
}

#[test]
fn fingerprint_depends_on_text_zone_and_policy() {
    let from = instant("2026-01-01T00:00:00Z");
    let of = |text: &str| Schedule::cron(text).unwrap();
    let base = of("CRON_TZ=Europe/Berlin 0 2 * * *");
    let others = [
        of("0 2 * * *"),
        of("CRON_TZ=Europe/Paris 0 2 * * *"),
        of("CRON_TZ=Europe/Berlin 0 3 * * *"),
        base.clone().on_dst(DstPolicy { gap: Gap::Skip, ..DstPolicy::default() }),
    ];
    for other in others {
        assert_ne!(base.fingerprint(from).schedule(), other.fingerprint(from).schedule(), "{other}");
    }
    assert_eq!(base.fingerprint(from), of("0 2 * * *").in_tz("Europe/Berlin").unwrap().fingerprint(from));
    let hashed = of("H 2 * * *");
    let (a, b) = (hashed.for_job("a").unwrap(), hashed.for_job("b").unwrap());
    assert_ne!(a.fingerprint(from).schedule(), b.fingerprint(from).schedule());
}

#[test]
fn zone_data_differing_within_400_days_is_noticed() {
    // Two zones stand for one zone in two versions of its data:
    // Cairo has had summer time again since 2023; Tripoli has not.
    let zone = |name: &str, from: &str| {
        Schedule::cron("@daily").unwrap().in_tz(name).unwrap().fingerprint(instant(from)).zone()
    };
    assert_eq!(zone("Africa/Cairo", "2020-01-01T00:00:00Z"), zone("Africa/Tripoli", "2020-01-01T00:00:00Z"));
    assert_eq!(zone("Africa/Cairo", "2022-03-01T00:00:00Z"), zone("Africa/Tripoli", "2022-03-01T00:00:00Z"));
    assert_ne!(zone("Africa/Cairo", "2022-04-01T00:00:00Z"), zone("Africa/Tripoli", "2022-04-01T00:00:00Z"));
    assert_ne!(zone("Africa/Cairo", "2026-01-01T00:00:00Z"), zone("Africa/Tripoli", "2026-01-01T00:00:00Z"));
    assert_eq!(zone("Europe/Berlin", "2026-01-01T00:00:00Z"), zone("Europe/Paris", "2026-01-01T00:00:00Z"));
}
