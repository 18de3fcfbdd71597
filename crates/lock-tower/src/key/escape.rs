//! Escaping of client values, which ensures that different values never produce the same name.

use super::{error::KeyError, source::Source};
use lock_core::{__private::escape_part, LockName};

pub(super) fn escape(value: &[u8]) -> String {
    escape_part(value).collect()
}

pub(super) fn push(name: &mut String, value: &[u8], source: &Source) -> Result<(), KeyError> {
    if value.is_empty() {
        return Err(KeyError::bad_request(format!("the {source} is empty")));
    }
    // Checked before escaping, which can triple the length.
    if value.len() > LockName::MAX_BYTES {
        return Err(KeyError::bad_request(format!("the {source} is too long")));
    }
    name.extend(escape_part(value));
    Ok(())
}
