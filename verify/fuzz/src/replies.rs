//! Replies of any shape to operations, biased towards those that resemble the reply of a script: their decoding, and those that
//! count as successes.

use arbitrary::{Result, Unstructured};
use futures_util::FutureExt;
use lock_core::{
    FencingToken, LockName, Retention,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, LeaseId, LeaseNumber, NotifyWaiters, Operation,
        Outcome, ProcessId, ReleaseRequest, Released, RenewRequest, Renewed, Submission,
    },
    clock::UtcTime,
};
use lock_redis::{client::Reply, model};
use std::time::Duration;

/// The time in which the test itself may read the clock.
const SLACK: u64 = 5_000_000;

/// The time in a reply that resembles one of a script.
const TIME: &str = "1763640000123456";

/// [`TIME`] as a number.
const TIME_MICROS: i64 = 1_763_640_000_123_456;

const WORDS: [&str; 14] = [
    "granted",
    "busy",
    "late",
    "refused",
    "error",
    "reentered",
    "gone",
    "released",
    "kept",
    "free",
    "held",
    "forced",
    "changed",
    "renewed",
];

/// Checks replies of scripts, of any shape.
///
/// # Panics
/// If a nonsensical reply is taken for a certain failure, although the script may have run.
pub fn replies(data: &[u8]) {
    check_replies(&mut Unstructured::new(data)).expect("numbers and choices need no bytes");
}

fn check_replies(u: &mut Unstructured<'_>) -> Result<()> {
    let value = any(u, 3)?;
    let said = format!("{value:?}");
    for error in model::read(value, u.int_in_range(0..=3)?) {
        // The words of the scripts that mean "nothing was done".
        let certain = ["refused", "held", "lacks", "failed"].iter().any(|word| said.contains(word));
        assert!(error.applied() == Applied::Unknown || certain, "{error}: {said}");
        assert!(error.to_string().len() < 1_000);
    }
    Ok(())
}

/// Checks that a reply is a success only if the script of its request can give it.
///
/// # Panics
/// If any other reply is.
pub fn grants(data: &[u8]) {
    check_grants(&mut Unstructured::new(data)).expect("numbers and choices need no bytes");
}

fn check_grants(u: &mut Unstructured<'_>) -> Result<()> {
    let steps = [0, 59, -59, 61, -61, 3_600, -3_600].map(|seconds: i64| seconds * 1_000_000);
    let server = UtcTime::from_micros((TIME_MICROS + *u.choose(&steps)?).unsigned_abs());
    let reserve = *u.choose(&[0, 64, u32::MAX])?;
    let floor = u.arbitrary::<Option<u64>>()?.map(FencingToken::new);
    let reply = any(u, 3)?;
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

/// Returns a reply of at most this depth.
fn any(u: &mut Unstructured<'_>, depth: u8) -> Result<Reply> {
    Ok(match u.int_in_range(0..=if depth == 0 { 5 } else { 8 })? {
        0 => Reply::Nil,
        1 => Reply::Error((*u.choose(&WORDS)?).to_owned()),
        2 => Reply::Integer(number(u)?),
        3 => Reply::Bytes((*u.choose(&WORDS)?).into()),
        4 => {
            let many = usize::from(u.arbitrary::<u8>()?).min(u.len());
            Reply::Bytes(u.bytes(many)?.to_vec().into())
        }
        // Like the reply of a batch: the time, and lines.
        5 => {
            let lines = (0..u.int_in_range(1..=8)?).map(|_| {
                Ok(match u.arbitrary()? {
                    true => (*u.choose(&WORDS)?).to_owned(),
                    false => u.arbitrary::<i64>()?.to_string(),
                })
            });
            let lines = lines.collect::<Result<Vec<_>>>()?;
            Reply::Bytes(format!("{TIME}\n{}", lines.join("\n")).into())
        }
        6 => Reply::List(several(u, depth)?),
        // Like the reply of a script: the time, a word, and the rest.
        _ => {
            let time = Reply::Bytes(TIME.into());
            let word = Reply::Bytes((*u.choose(&WORDS)?).into());
            Reply::List([time, word].into_iter().chain(several(u, depth)?).collect())
        }
    })
}

/// Returns a number: any, a small one as other commands return it, or one near [`TIME`].
fn number(u: &mut Unstructured<'_>) -> Result<i64> {
    Ok(match u.int_in_range(0..=3)? {
        0 => u.arbitrary()?,
        1 => u.int_in_range(-1..=3)?,
        _ => TIME_MICROS + i64::from(u.arbitrary::<i32>()?),
    })
}

fn several(u: &mut Unstructured<'_>, depth: u8) -> Result<Vec<Reply>> {
    (0..u.int_in_range(0..=4)?).map(|_| any(u, depth - 1)).collect()
}
