//! Fuzz targets: functions that arbitrary bytes must not break.
//!
//! Each target is a plain function of bytes that panics if a property does not hold. The tests of this crate run each
//! on thousands of seeded inputs; `targets/` runs the same functions under a coverage-guided fuzzer. [`arbitrary`]
//! turns the bytes into values; after the last byte, all numbers are 0.
//!
//! | target | input | property |
//! | --- | --- | --- |
//! | [`names`] | lock names | accepted names obey the rules; all keys of a lock share one slot of a cluster |
//! | [`urls`] | addresses of Redis | no panic; no error repeats a password |
//! | [`options`] | durations | accepted options leave time to renew |
//! | [`replies`] | replies of scripts, of any shape | decoding gives an answer or an error, and errors are never *certain* |
//! | [`grants`] | such a reply to an operation, and the time of the server | only a reply that its script can give is a success |
//! | [`events`] | events to the state machine, in any order | its invariants |

mod machine;
mod replies;

pub use machine::events;
pub use replies::{grants, replies};

use arbitrary::{Arbitrary, Unstructured};
use lock_core::{LockName, LockOptions, NameError};
use lock_redis::{Address, model};
use std::{error::Error, time::Duration};

/// Checks lock names.
///
/// # Panics
/// If an accepted name breaks a rule.
pub fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    parts(&text);
    let Ok(name) = LockName::new(text.as_ref()) else { return };
    assert_eq!(name.as_str(), text);
    assert!(!text.is_empty() && text.len() <= LockName::MAX_BYTES);
    assert!(!text.chars().any(char::is_control));
    assert!(!LockName::RESERVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix)));
    let [lock, counter, channel] = model::keys(&name);
    assert_eq!(lock, text);
    assert_eq!(hash_tag(&counter), hash_tag(&lock), "{text}");
    assert_eq!(hash_tag(&channel), hash_tag(&lock), "{text}");
    assert_ne!(counter, lock);
}

/// Checks that a text can be a part of a name unless it is empty, too long, or makes the name reserved.
fn parts(text: &str) {
    match (LockName::of((text, 7)), LockName::of(("k", text))) {
        (Ok(first), Ok(second)) => {
            let encoded = second.as_str().strip_prefix("k:").expect("a first part");
            assert_eq!(first.as_str(), format!("{encoded}:7"));
            assert!(encoded.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~%".contains(c)), "{encoded}");
        }
        (Err(NameError::EmptyPart { part: 0 }), Err(NameError::EmptyPart { part: 1 })) => {
            assert!(text.is_empty());
        }
        (Err(NameError::TooLong { .. }), Err(NameError::TooLong { .. })) => assert!(text.len() > 169),
        (Err(NameError::ReservedPrefix { .. }), Ok(_)) => {
            assert!(text == "distlock" || text.starts_with("redisson_"));
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

/// Returns the part of a key that determines its cluster slot: between the first `{` and the next `}`, or all of it.
fn hash_tag(key: &str) -> &str {
    let tagged = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tagged.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Checks addresses of Redis that contain a password.
///
/// # Panics
/// If an error contains the password.
pub fn urls(data: &[u8]) {
    const SECRET: &str = "c4n4ry";
    let text = String::from_utf8_lossy(data);
    for url in
        [text.to_string(), format!("redis://:{SECRET}{text}"), format!("redis+unix:///{text}?pass={SECRET}")]
    {
        let said = match Address::parse(&url) {
            Ok(address) => format!("{address:?}"),
            Err(error) => format!("{error} {error:?} {:?}", error.source()),
        };
        assert!(text.contains(SECRET) || !said.contains(SECRET), "{said}");
    }
}

/// Checks lock options with arbitrary durations.
///
/// # Panics
/// If accepted options leave no time to renew.
pub fn options(data: &[u8]) {
    check_options(&mut Unstructured::new(data)).expect("numbers and choices need no bytes");
}

fn check_options(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let AnyDuration(lease) = u.arbitrary()?;
    let fixed: bool = u.arbitrary()?;
    let mut options =
        if fixed { LockOptions::new().fixed_lease(lease) } else { LockOptions::new().lease(lease) };
    let default_timeout = (lease / 10).min(Duration::from_secs(3));
    let (mut every, mut timeout, mut margin) = (lease / 3, default_timeout, lease / 100);
    if let Some(AnyDuration(chosen)) = u.arbitrary()? {
        every = chosen;
        options = options.renew_every(every);
    }
    if let Some(AnyDuration(chosen)) = u.arbitrary()? {
        timeout = chosen;
        options = options.operation_timeout(timeout);
    }
    if let Some(AnyDuration(chosen)) = u.arbitrary()? {
        margin = chosen;
        options = options.margin(margin);
    }
    if let Some(AnyDuration(budget)) = u.arbitrary()? {
        options = options.outage_budget(budget);
    }
    if let Some(AnyDuration(most)) = u.arbitrary()? {
        options = options.max_hold(most);
    }
    match options.check() {
        Ok(()) => {
            assert!(lease >= LockOptions::MIN_LEASE && timeout <= lease / 10);
            let renewed = if fixed { Duration::ZERO } else { every };
            assert!(lease.saturating_sub(margin) > renewed.saturating_add(timeout), "{options:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

/// An arbitrary duration: usually sensible, sometimes not.
#[derive(Debug, Clone, Copy)]
struct AnyDuration(Duration);

impl<'a> Arbitrary<'a> for AnyDuration {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(match u.int_in_range(0..=3)? {
            0 => Duration::from_millis(u.int_in_range(0..=99_999)?),
            1 => Duration::from_micros(u.int_in_range(0..=999_999)?),
            2 => Duration::from_secs(u.int_in_range(0..=999_999)?),
            _ => Duration::new(u.arbitrary()?, 0),
        }))
    }
}

/// Returns a number of milliseconds below `bound`.
fn millis_below(u: &mut Unstructured<'_>, bound: u64) -> arbitrary::Result<Duration> {
    Ok(Duration::from_millis(u.int_in_range(0..=bound - 1)?))
}
