//! Replies of any shape to operations, and those that count as successes.

use crate::value::{self, TIME_MICROS};
use arbitrary::{Result, Unstructured};
use futures_util::FutureExt;
use lock_core::{
    FencingToken, LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, LeaseId, LeaseNumber, NotifyWaiters, Operation, Outcome,
        ProcessId, ReleaseRequest, Released, RenewRequest, Renewed, Submission,
    },
    clock::UtcTime,
};
use lock_redis::{client::Reply, model};
use std::time::Duration;

/// The time in which the test itself may read the clock.
const SLACK: u64 = 5_000_000;

/// Checks that a reply is a success only if the script of its request can give it.
///
/// # Panics
/// If any other reply is.
pub fn grants(data: &[u8]) {
    check(&mut Unstructured::new(data)).expect("numbers and choices need no bytes");
}

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let steps = [0, 59, -59, 61, -61, 3_600, -3_600].map(|seconds: i64| seconds * 1_000_000);
    let server = UtcTime::from_micros((TIME_MICROS + *u.choose(&steps)?).unsigned_abs());
    let reserve = *u.choose(&[0, 64, u32::MAX])?;
    let floor = u.arbitrary::<Option<u64>>()?.map(FencingToken::new);
    let reply = value::any(u, 3)?;
    let near = |time: &u64| time.abs_diff(server.as_micros()) <= 60_000_000 + SLACK;
    let (bare, listed) = match &reply {
        Reply::Integer(number) => (time(*number).filter(near), None),
        Reply::List(parts) => {
            let time = parts.first().and_then(integer).and_then(time).filter(near);
            (None, time.map(|_| &parts[1..]))
        }
        _ => (None, None),
    };
    let said = || format!("{reply:?} at {server:?}");

    let mode = AcquireMode::New { reserve, floor };
    if let Some(Acquired::Granted { first, last }) = acquired(mode, &reply, server) {
        let (first, last) = (first.get(), last.get());
        assert!(first <= last && last - first <= 1_000 && last < 1 << 53, "{}", said());
        let by_time = floor.is_none() && bare == Some(first) && last == first + u64::from(reserve.min(1_000));
        assert!(by_time || listed.is_some_and(|parts| is(parts, "granted", 3)), "{}", said());
    }
    if let Some(Acquired::Reentered) = acquired(AcquireMode::Reenter { depth: 2 }, &reply, server) {
        let listed = listed.is_some_and(|parts| is(parts, "reentered", 0));
        assert!(bare.is_some() || listed, "{}", said());
    }
    if renewed(&reply, server) {
        assert!(bare.is_some() || listed.is_some_and(|parts| is(parts, "renewed", 0)), "{}", said());
    }
    if released(&reply, server) {
        // At any time of a server.
        let is_release = match &reply {
            Reply::Integer(number) => time(*number).is_some(),
            Reply::List(parts) => parts.len() > 1 && is(&parts[1..], "released", 1),
            _ => false,
        };
        assert!(is_release, "{}", said());
    }
    if model::is_vote(reply.clone(), server) {
        assert!(bare.is_some() || listed.is_some_and(|parts| is(parts, "granted", 1)), "{}", said());
    }
    Ok(())
}

/// Returns a number if it can be the time of a server.
fn time(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|time| (1_000_000_000_000_000..1 << 53).contains(time))
}

fn integer(part: &Reply) -> Option<i64> {
    match part {
        Reply::Integer(number) => Some(*number),
        Reply::Bytes(text) => str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Returns `true` for this word and as many numbers.
fn is(parts: &[Reply], word: &str, numbers: usize) -> bool {
    let is_word = |part: &Reply| matches!(part, Reply::Bytes(text) if text == word);
    parts.len() == 1 + numbers && is_word(&parts[0])
}

fn name() -> LockName {
    LockName::new("x").expect("a valid name")
}

fn lease() -> LeaseId {
    LeaseId::new(ProcessId::random(), LeaseNumber::new(1))
}

fn acquired(mode: AcquireMode, reply: &Reply, server: UtcTime) -> Option<Acquired> {
    let request = AcquireRequest {
        name: name(),
        lease: lease(),
        duration: Duration::from_secs(30),
        not_after: server,
        mode,
        retention: Retention::Backend,
    };
    let (submission, answer) = Submission::channel(Operation::Acquire(request));
    model::answer(submission, reply.clone(), server);
    match answer.now_or_never()?.ok()?.outcome {
        Outcome::Acquired(outcome) => Some(outcome),
        _ => None,
    }
}

fn renewed(reply: &Reply, server: UtcTime) -> bool {
    let request =
        RenewRequest { name: name(), lease: lease(), duration: Duration::from_secs(30), not_after: server };
    let (submission, answer) = Submission::channel(Operation::Renew(request));
    model::answer(submission, reply.clone(), server);
    answer
        .now_or_never()
        .is_some_and(|answer| answer.is_ok_and(|reply| reply.outcome == Outcome::Renewed(Renewed::Renewed)))
}

fn released(reply: &Reply, server: UtcTime) -> bool {
    let request =
        ReleaseRequest { name: name(), lease: lease(), depth_left: 0, notify: NotifyWaiters::EvenIfGone };
    let (submission, answer) = Submission::channel(Operation::Release(request));
    model::answer(submission, reply.clone(), server);
    let answer = answer.now_or_never();
    answer.is_some_and(|answer| {
        answer.is_ok_and(|reply| matches!(reply.outcome, Outcome::Released(Released::Released { .. })))
    })
}
