//! Conversion of fred's frames to replies.

use crate::error;
use fred::{
    error::Error,
    types::{Resp3Frame as Frame, Value},
};
use lock_redis::client::{CallError, Reply};

/// Converts a frame. An error reply becomes an error.
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
            return Err(CallError::Unreadable("unexpected reply type".to_owned()));
        }
    })
}

/// Converts the reply to one command of a pipeline, for which fred returns values and errors instead of frames.
pub(crate) fn piped(answer: Result<Value, Error>) -> Result<Reply, CallError> {
    match answer {
        Ok(value) => of_value(value),
        Err(error) if error::is_from_server(error.details()) => Ok(Reply::Error(error.details().to_owned())),
        Err(error) => Err(error::of_call(&error)),
    }
}

fn of_value(value: Value) -> Result<Reply, CallError> {
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Integer(number) => Reply::Integer(number),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(parts) => Reply::List(parts.into_iter().map(of_value).collect::<Result<_, _>>()?),
        _ => {
            return Err(CallError::Unreadable("unexpected reply type".to_owned()));
        }
    })
}

/// Returns the argument that a `PING` echoes. A connection with subscriptions replies with
/// `["pong", …]`.
pub(crate) fn echo(answer: Value) -> Option<String> {
    match answer {
        Value::Array(mut words) => words.pop()?.into_string(),
        word => word.into_string(),
    }
}
