//! From fred's frames to replies.

use fred::types::{Resp3Frame as Frame, Value};
use lock_redis::client::{CallError, Reply};

/// A reply, whose own error is an error.
pub(crate) fn reply(frame: Frame) -> Result<Reply, CallError> {
    match part(frame)? {
        Reply::Error(text) => Err(CallError::Refused(text)),
        reply => Ok(reply),
    }
}

fn part(frame: Frame) -> Result<Reply, CallError> {
    Ok(match frame {
        Frame::Null => Reply::Nil,
        Frame::Number { data, .. } => Reply::Integer(data),
        Frame::BlobString { data, .. }
        | Frame::SimpleString { data, .. }
        | Frame::VerbatimString { data, .. }
        | Frame::BigNumber { data, .. } => Reply::Bytes(data),
        Frame::SimpleError { data, .. } => Reply::Error(data.to_string()),
        Frame::BlobError { data, .. } => Reply::Error(String::from_utf8_lossy(&data).into_owned()),
        Frame::Array { data, .. } | Frame::Push { data, .. } => {
            Reply::List(data.into_iter().map(part).collect::<Result<_, _>>()?)
        }
        Frame::Boolean { .. }
        | Frame::Double { .. }
        | Frame::Map { .. }
        | Frame::Set { .. }
        | Frame::Hello { .. }
        | Frame::ChunkedString(_) => {
            return Err(CallError::Unreadable("a type of reply that no command of ours has".to_owned()));
        }
    })
}

/// The text that a `PING` was sent with. A connection with subscriptions answers `["pong", …]`.
pub(crate) fn echo(answer: Value) -> Option<String> {
    match answer {
        Value::Array(mut words) => words.pop()?.into_string(),
        word => word.into_string(),
    }
}
