//! Properties of reported information: the stored hold, the server's time, and the capabilities.

use super::{
    Harness,
    contender::{Contender, LONG, look, must_be_free, next},
};
use lock_core::{
    backend::{BackendExt as _, ForceReleaseRequest, Inspected, NotifyWaiters, ReleaseRequest},
    clock::UtcTime,
};
use std::time::Duration;

const IN_2020: UtcTime = UtcTime::from_micros(1_577_836_800_000_000);
const IN_2255: UtcTime = UtcTime::from_micros(1 << 53);

/// An inspection shows the holder, the depth and the remaining time, and writes nothing.
pub async fn an_inspection_shows_the_hold(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("inspect"));
    assert_eq!(look(&backend, &name).await.outcome, Inspected::Free);
    let a = Contender::new(&backend);
    a.take(&name, LONG).await;
    a.keep(&name, 2, LONG).await;
    let Inspected::Held(hold) = look(&backend, &name).await.outcome else {
        panic!("expected {name} to be held")
    };
    assert_eq!((hold.lease.as_str(), hold.depth), (a.lease().to_string().as_str(), 2));
    let remaining = hold.remaining.expect("a lease always has an end");
    assert!(remaining <= LONG && remaining > LONG / 2, "unexpected remaining time {remaining:?} of {LONG:?}");
    a.must_last(&name, 2, LONG).await;
    a.free(&name).await;
    must_be_free(&backend, &name).await;
}

/// Every reply contains the server's time, which is plausible and never decreases from call to call. The items of one
/// call may be executed in any order.
pub async fn every_answer_carries_a_server_time_that_does_not_fall(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("now"));
    let a = Contender::new(&backend);
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(look(&backend, &name).await.now);
        let request = a.request(&name, LONG, next(0, None)).await;
        times.push(a.send(request.clone()).await.now);
        let stranger = Contender::new(&backend);
        times.push(stranger.acquire_reply(&name, LONG).await.now);
        let renewed = backend.renew(vec![a.renewal(&name, LONG), stranger.renewal(&name, LONG)]).await;
        let mut renewed: Vec<_> =
            renewed.into_iter().map(|reply| reply.expect("renewal failed").now).collect();
        renewed.sort_unstable();
        times.extend(renewed);
        let (lease, depth_left, notify) = (a.lease(), 0, NotifyWaiters::Yes);
        let release = ReleaseRequest { name: name.clone(), lease, depth_left, notify };
        times.push(backend.release(release.clone()).await.expect("release failed").now);
        times.push(backend.release(release).await.expect("repeated release failed").now);
        let force = ForceReleaseRequest { name: name.clone(), seen: a.lease().to_string() };
        times.push(backend.force_release(force).await.expect("forced release failed").now);
        h.pass(Duration::from_millis(2)).await;
    }
    assert!(times.iter().all(|now| (IN_2020..IN_2255).contains(now)), "implausible server times: {times:?}");
    assert!(times.is_sorted(), "the server's time decreased: {times:?}");
}

/// The server's time advances with real time.
pub async fn the_server_time_goes_on(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("goes-on"));
    let before = look(&backend, &name).await.now;
    h.pass(Duration::from_millis(100)).await;
    let passed = look(&backend, &name).await.now.since(before);
    assert!(passed >= Duration::from_millis(95), "the server's time advanced by only {passed:?} in 100 ms");
    assert!(passed < Duration::from_secs(60), "the server's time advanced by {passed:?} in 100 ms");
}

/// After any reply, the backend can estimate the server's time closely enough for the `not_after` of
/// an acquire.
pub async fn the_estimate_of_the_server_time_is_close(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("estimate"));
    for _ in 0..5 {
        let before = look(&backend, &name).await.now;
        let estimate = backend.server_now(&name).expect("expected an estimate after a reply");
        let after = look(&backend, &name).await.now;
        let off = before.since(estimate).max(estimate.since(after));
        assert!(off < Duration::from_secs(1), "the estimate is off by {off:?}");
        h.pass(Duration::from_millis(20)).await;
    }
}

/// A backend's capabilities do not change, and their name can be used in a metric.
pub async fn capabilities_are_constant_and_named(h: &impl Harness) {
    let (backend, name) = (h.store().await.backend, h.name("capabilities"));
    let before = backend.capabilities();
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    assert!(
        !before.name.is_empty() && before.name.chars().all(word),
        "`{}` is not a valid name",
        before.name
    );
    Contender::new(&backend).take(&name, LONG).await;
    assert_eq!(backend.capabilities(), before);
}
