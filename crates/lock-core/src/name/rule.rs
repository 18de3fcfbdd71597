//! The rules of names, as a constant function that [`LockName::new`] and [`LockName::from_static`] share.

use super::{LockName, NameError};

/// Checks `name`, and returns the first rule that it violates as an error.
pub(super) const fn check(name: &str) -> Result<(), NameError> {
    let name = name.as_bytes();
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > LockName::MAX_BYTES {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    if let Some(at) = control_character(name) {
        return Err(NameError::ControlCharacter { at });
    }
    let mut next = 0;
    while next < LockName::RESERVED_PREFIXES.len() {
        let prefix = LockName::RESERVED_PREFIXES[next];
        if starts_with(name, prefix.as_bytes()) {
            return Err(NameError::ReservedPrefix { prefix });
        }
        next += 1;
    }
    match has_whole_hash_tag(name) {
        true => Ok(()),
        false => Err(NameError::BrokenHashTag),
    }
}

/// Returns the byte offset of the first character for which [`char::is_control`] is true: U+0000 to U+001F, U+007F, and
/// U+0080 to U+009F, whose first byte in UTF-8 is C2.
const fn control_character(name: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < name.len() {
        let is_control = match name[at] {
            0..=0x1F | 0x7F => true,
            0xC2 => name[at + 1] < 0xA0,
            _ => false,
        };
        if is_control {
            return Some(at);
        }
        at += 1;
    }
    None
}

const fn starts_with(name: &[u8], prefix: &[u8]) -> bool {
    matches!(name.split_at_checked(prefix.len()), Some((begin, _)) if are_equal(begin, prefix))
}

const fn are_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Returns `true` if the name has no brace, or its first `{` is followed by a non-empty tag and `}`.
const fn has_whole_hash_tag(name: &[u8]) -> bool {
    match (find(name, b'{'), find(name, b'}')) {
        (None, None) => true,
        (Some(open), Some(close)) => close > open + 1,
        _ => false,
    }
}

const fn find(name: &[u8], byte: u8) -> Option<usize> {
    let mut at = 0;
    while at < name.len() {
        if name[at] == byte {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_those_of_unicode() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let mut buffer = [0; 4];
            let found = control_character(c.encode_utf8(&mut buffer).as_bytes());
            assert_eq!(found, c.is_control().then_some(0), "{c:?}");
        }
        assert_eq!(control_character("aÂ\u{80}".as_bytes()), Some(3));
    }
}
