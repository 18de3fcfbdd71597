//! Replies of any shape, with a leaning to those that look like a script's.

use crate::Bytes;
use lock_fred::fred::types::Value;

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

/// A value of at most this depth.
pub(crate) fn any(bytes: &mut Bytes<'_>, depth: u8) -> Value {
    match bytes.choice(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => Value::Boolean(bytes.flag()),
        2 => Value::Integer(bytes.number().cast_signed()),
        3 => Value::Double(f64::from_bits(bytes.number())),
        4 => Value::String(WORDS[usize::from(bytes.byte()) % WORDS.len()].into()),
        5 => {
            let many = usize::from(bytes.byte());
            Value::Bytes(bytes.take(many).to_vec().into())
        }
        6 => Value::Array(several(bytes, depth)),
        // As a script answers: the time, a word, and the rest.
        _ => {
            let time = Value::String(WORDS[13].into());
            let word = Value::String(WORDS[usize::from(bytes.byte()) % 13].into());
            Value::Array([time, word].into_iter().chain(several(bytes, depth)).collect())
        }
    }
}

fn several(bytes: &mut Bytes<'_>, depth: u8) -> Vec<Value> {
    (0..bytes.choice(5)).map(|_| any(bytes, depth - 1)).collect()
}
