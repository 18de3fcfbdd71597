//! Replies of any shape, biased towards those that resemble the reply of a script.

use arbitrary::{Result, Unstructured};
use lock_redis::client::Reply;

const TIME: &str = "1763640000123456";

/// [`TIME`] as a number.
pub(crate) const TIME_MICROS: i64 = 1_763_640_000_123_456;

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

/// Returns a reply of at most this depth.
pub(crate) fn any(u: &mut Unstructured<'_>, depth: u8) -> Result<Reply> {
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
