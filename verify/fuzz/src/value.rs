//! Replies of any shape, with a leaning to those that look like a script's.

use crate::Bytes;
use lock_redis::client::Reply;

const WORDS: [&str; 14] = [
    "granted",
    "busy",
    "late",
    "refused",
    "reentered",
    "gone",
    "released",
    "kept",
    "free",
    "held",
    "forced",
    "changed",
    "renewed",
    "1763640000123456",
];

/// A reply of at most this depth.
pub(crate) fn any(bytes: &mut Bytes<'_>, depth: u8) -> Reply {
    match bytes.choice(if depth == 0 { 5 } else { 8 }) {
        0 => Reply::Nil,
        1 => Reply::Error(WORDS[usize::from(bytes.byte()) % WORDS.len()].to_owned()),
        2 => Reply::Integer(bytes.number().cast_signed()),
        3 => Reply::Bytes(WORDS[usize::from(bytes.byte()) % WORDS.len()].into()),
        4 => {
            let many = usize::from(bytes.byte());
            Reply::Bytes(bytes.take(many).to_vec().into())
        }
        5 => Reply::List(several(bytes, depth)),
        // As a script answers: the time, a word, and the rest.
        _ => {
            let time = Reply::Bytes(WORDS[13].into());
            let word = Reply::Bytes(WORDS[usize::from(bytes.byte()) % 13].into());
            Reply::List([time, word].into_iter().chain(several(bytes, depth)).collect())
        }
    }
}

fn several(bytes: &mut Bytes<'_>, depth: u8) -> Vec<Reply> {
    (0..bytes.choice(5)).map(|_| any(bytes, depth - 1)).collect()
}
