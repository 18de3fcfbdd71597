//! The client's key, from the header `Idempotency-Key`, and the fingerprint that distinguishes a retry from a different
//! request.

use crate::key::KeyError;
use http::{HeaderName, Uri, request::Parts};
use lock_core::__private::escape_part;
use sha2::{Digest, Sha256};
use std::fmt;

/// The header that contains the key.
const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum length of a key, in bytes.
const MAX_KEY_LENGTH: usize = 255;

/// The SHA-256 of the method, the path with its query, and the body of a request.
///
/// Headers are excluded, since proxies and clients change them between retries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Creates a fingerprint from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Computes the fingerprint. Methods and paths contain no line feeds, so the parts are
    /// unambiguous.
    pub(super) fn of(head: &Parts, body: &[u8]) -> Self {
        let path = whole_uri(head).path_and_query().map_or("", |path| path.as_str());
        let hash = Sha256::new().chain_update(head.method.as_str()).chain_update("\n").chain_update(path);
        Self(hash.chain_update("\n").chain_update(body).finalize().into())
    }
}

/// Returns the URI that the client requested. A nested router receives only the end of the path.
fn whole_uri(head: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = head.extensions.get() {
        return uri;
    }
    &head.uri
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Reads the key. The quoted RFC 9651 string of the draft and the bare text sent by most clients
/// produce the same key.
pub(super) fn read_key(head: &Parts) -> Result<String, KeyError> {
    let mut values = head.headers.get_all(HEADER).iter();
    let value = values.next().ok_or(KeyError::missing("the header `Idempotency-Key` is missing"))?;
    if values.next().is_some() {
        return Err(KeyError::bad_request("the header `Idempotency-Key` is present more than once"));
    }
    let text = value.to_str().map_err(|_| malformed())?.trim();
    let key = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted)?,
        None => text.to_owned(),
    };
    match key.len() {
        0 => Err(KeyError::bad_request("the header `Idempotency-Key` is empty")),
        1..=MAX_KEY_LENGTH => Ok(shortened(key)),
        _ => Err(KeyError::bad_request("the header `Idempotency-Key` is longer than 255 bytes")),
    }
}

/// Replaces a key with its hash if its encoded form would leave no room for the scope in the
/// record's name. Most characters other than letters and digits take three bytes.
fn shortened(key: String) -> String {
    let encoded: usize = escape_part(key.as_bytes()).map(str::len).sum();
    if encoded <= MAX_KEY_LENGTH {
        return key;
    }
    Sha256::digest(key).iter().fold("sha256.".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Converts the error for a missing scope into one that is never passed through.
pub(super) fn required(error: KeyError) -> KeyError {
    match error {
        KeyError::Missing(detail) => KeyError::BadRequest(detail),
        other => other,
    }
}

/// Reads a quoted string after its opening quote. Only quotes and backslashes can be escaped, and
/// nothing can follow.
fn unquote(text: &str) -> Result<String, KeyError> {
    let (mut key, mut rest) = (String::with_capacity(text.len()), text.chars());
    loop {
        match rest.next() {
            Some('"') if rest.as_str().is_empty() => return Ok(key),
            Some('\\') => {
                key.push(rest.next().filter(|escaped| matches!(escaped, '"' | '\\')).ok_or_else(malformed)?)
            }
            Some('"') | None => return Err(malformed()),
            Some(other) => key.push(other),
        }
    }
}

fn malformed() -> KeyError {
    KeyError::bad_request(
        "the header `Idempotency-Key` is malformed: send visible ASCII, or a string in quotes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn of(values: &[&str]) -> Result<String, KeyError> {
        let mut request = Request::post("/");
        for value in values {
            request = request.header(HEADER, *value);
        }
        read_key(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn quoted_and_bare_keys_are_equal() {
        assert_eq!(of(&["order-7"]), Ok("order-7".into()));
        assert_eq!(of(&["\"order-7\""]), Ok("order-7".into()));
        assert_eq!(of(&[r#""a \"quoted\" \\ key""#]), Ok(r#"a "quoted" \ key"#.into()));
    }

    #[test]
    fn keys_are_present_once_and_bounded() {
        assert!(matches!(of(&[]), Err(KeyError::Missing(_))));
        assert_eq!(of(&[&"k".repeat(255)]).map(|key| key.len()), Ok(255));
        let too_long = "k".repeat(256);
        for bad in [&["", "a"] as &[&str], &["a", "a"], &[""], &["\"\""], &[&too_long], &["ä"]] {
            assert!(matches!(of(bad), Err(KeyError::BadRequest(_))), "{bad:?}");
        }
        for bad in ["\"", "\"a", "\"a\";b", "\"a\"\"", r#""\a""#, r#""\""#] {
            assert!(matches!(of(&[bad]), Err(KeyError::BadRequest(_))), "{bad:?}");
        }
    }
}
