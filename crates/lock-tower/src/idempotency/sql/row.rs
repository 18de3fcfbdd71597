//! The conversion of records from and to table rows.

use crate::idempotency::{
    fingerprint::Fingerprint,
    store::{Begun, StoreError},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::time::{SystemTime, UNIX_EPOCH};

/// A row: fingerprint, status, headers, body. Without a status, there is no response yet.
pub(super) type Row = (Vec<u8>, Option<i64>, Option<Vec<u8>>, Option<Vec<u8>>);

/// Returns the result of an attempt that did not start because of this row.
pub(super) fn decide((stored, status, headers, body): Row, mine: &Fingerprint) -> Result<Begun, StoreError> {
    if stored != mine.as_bytes() {
        return Ok(Begun::Mismatch);
    }
    let Some(status) = status else { return Ok(Begun::Superseded) };
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let mut answer = Response::new(Bytes::from(body.unwrap_or_default()));
    *answer.status_mut() = status.ok_or_else(unreadable)?;
    *answer.headers_mut() = read_headers(&headers.unwrap_or_default()).ok_or_else(unreadable)?;
    Ok(Begun::Answered(answer))
}

fn unreadable() -> StoreError {
    StoreError::failed("the stored response cannot be read (was it written by another program?)")
}

/// Writes headers in HTTP/1 format. Values contain no line feeds.
pub(super) fn write_headers(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.as_bytes());
        lines.push(b'\n');
    }
    lines
}

fn read_headers(lines: &[u8]) -> Option<HeaderMap> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (line.get(..colon)?, line.get(colon + 2..)?);
            Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
        })
        .collect()
}

/// Returns the whole seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
