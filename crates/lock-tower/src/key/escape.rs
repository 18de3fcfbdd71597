//! The escaping of values from the client, so that different values never make the same name.

use super::{error::KeyError, source::Source};
use lock_core::LockName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Every character but the unreserved ones of RFC 3986. A separator between two values has at least one of these
/// characters, so a name can be split in only one way.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Returns `true` if an escaped value may contain this character.
pub(super) fn may_stand_in_a_value(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~%".contains(c)
}

pub(super) fn escape(value: &[u8]) -> String {
    percent_encode(value, ESCAPED).to_string()
}

pub(super) fn push(name: &mut String, value: &[u8], source: &Source) -> Result<(), KeyError> {
    if value.is_empty() {
        return Err(KeyError::bad_request(format!("the {source} is empty")));
    }
    // Checked before escaping: a long value must not cost three times its length.
    if value.len() > LockName::MAX_BYTES {
        return Err(KeyError::bad_request(format!("the {source} is too long")));
    }
    name.extend(percent_encode(value, ESCAPED));
    Ok(())
}
