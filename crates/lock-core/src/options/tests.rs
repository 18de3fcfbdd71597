//! Tests of valid and contradictory options.

use super::*;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn the_defaults_are_as_documented() {
    let terms = LockOptions::new().terms().unwrap();
    assert_eq!((terms.lease, terms.operation_timeout), (secs(30), secs(3)));
    assert_eq!(terms.keep, Keep::Renewed { every: secs(10) });
    assert_eq!(terms.margin, Duration::from_millis(302));
    assert_eq!((terms.outage_budget, terms.max_hold), (secs(30), None));
    assert_eq!(terms.poll_interval, secs(30));
    let nightly = LockOptions::new().lease(secs(24 * 60 * 60)).terms().unwrap();
    assert_eq!(nightly.operation_timeout, secs(3), "an outage must not block a name for hours");
    assert!(
        LockOptions::new().lease(LockOptions::MIN_LEASE).check().is_ok(),
        "the shortest lease fits its own defaults"
    );
}

#[test]
fn contradictory_options_are_refused_with_a_remedy() {
    let o = LockOptions::new();
    let cases = [
        (o.lease(Duration::ZERO), "at least 100ms"),
        (o.fixed_lease(Duration::from_millis(99)), "at least 100ms"),
        (o.renew_every(Duration::ZERO), "`renew_every` is too short"),
        (o.operation_timeout(Duration::ZERO), "`operation_timeout` is too short"),
        (o.outage_budget(Duration::ZERO), "`outage_budget` is too short"),
        (o.max_hold(Duration::ZERO), "`max_hold` is too short"),
        (o.operation_timeout(secs(4)), "at most 3s"),
        (o.poll_interval(Duration::ZERO), "`poll_interval` is too short"),
        (o.max_hold(secs(3)), "or a shorter `operation_timeout`"),
        (o.min_hold(secs(31)), "use at most the lease (30s)"),
        (o.retention(Retention::For(Duration::ZERO)), "use 1s to"),
        (o.retention(Retention::For(Duration::MAX)), "or `Retention::Forever`"),
        (o.renew_every(secs(27)), "renew more often"),
        (o.renew_every(Duration::MAX), "renew more often"),
        (o.margin(secs(30)), "renew more often"),
        (o.fixed_lease(secs(1)).margin(secs(1)), "renew more often"),
    ];
    for (options, cure) in cases {
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains(cure), "{error} says {cure}");
    }
}

#[test]
fn options_show_what_was_chosen() {
    let o = LockOptions::new();
    assert_eq!(format!("{o:?}"), "LockOptions { lease: 30s, .. }");
    assert_eq!(format!("{:?}", o.poll_interval(secs(30)).min_hold(Duration::ZERO)), format!("{o:?}"));
    let chosen =
        o.fixed_lease(secs(5)).margin(secs(1)).hand_off(0, Duration::ZERO).token_floor(FencingToken::new(7));
    for shown in ["fixed_lease: 5s", "margin: 1s", "token_floor: ", "hand_off: "] {
        assert!(format!("{chosen:?}").contains(shown), "{chosen:?}");
    }
    // Each other option is shown as well.
    let others = [
        o.renew_every(secs(1)),
        o.operation_timeout(secs(1)),
        o.outage_budget(secs(1)),
        o.poll_interval(secs(1)),
        o.max_hold(secs(60)),
        o.min_hold(secs(1)),
        o.retention(Retention::Forever),
    ];
    for other in others {
        assert_ne!(format!("{other:?}"), format!("{o:?}"));
    }
}

#[test]
fn options_are_checked_against_the_limits() {
    let limits = Limits::new().max_lease(secs(60));
    assert!(limits.terms(&LockOptions::new().lease(secs(60))).is_ok());
    let error = limits.terms(&LockOptions::new().lease(secs(61))).unwrap_err();
    assert_eq!(error, OptionsError::LeaseTooLong { lease: secs(61), most: secs(60) });
    assert!(Limits::new().waiters(0).check().is_err());
}
