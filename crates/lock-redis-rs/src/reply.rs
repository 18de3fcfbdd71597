//! Conversion of redis-rs values to replies.

use lock_redis::client::{CallError, Reply};
use redis::{ServerError, Value};
use std::str;

/// Converts a value. An error reply becomes an error.
pub(crate) fn reply(value: Value) -> Result<Reply, CallError> {
    match part(value)? {
        Reply::Error(text) => Err(CallError::Refused(text)),
        reply => Ok(reply),
    }
}

/// Converts the reply to one command of a pipeline.
pub(crate) fn piped(value: Value) -> Result<Reply, CallError> {
    part(value)
}

/// Checks the confirmation of a subscription, or of its end.
pub(crate) fn confirmed(value: Value) -> Result<(), CallError> {
    match value {
        Value::Push { .. } => Ok(()),
        other => match reply(other)? {
            Reply::List(_) => Ok(()),
            _ => Err(CallError::Unreadable("the subscription was not confirmed".to_owned())),
        },
    }
}

fn part(value: Value) -> Result<Reply, CallError> {
    Ok(match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Integer(number),
        Value::BulkString(bytes) => Reply::Bytes(bytes.into()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Bytes(text.into()),
        Value::Okay => Reply::Bytes("OK".into()),
        Value::Array(parts) => Reply::List(parts.into_iter().map(part).collect::<Result<_, _>>()?),
        // As RESP2 encodes maps.
        Value::Map(pairs) => {
            let parts = pairs.into_iter().flat_map(|(key, value)| [key, value]);
            Reply::List(parts.map(part).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => Reply::Error(words(&error)),
        _ => return Err(CallError::Unreadable("unexpected reply type".to_owned())),
    })
}

/// Restores the server's message, which redis-rs splits.
fn words(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// Returns the channel of a message.
pub(crate) fn channel(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{VerbatimFormat, parse_redis_value};

    fn read(wire: &str) -> Result<Reply, CallError> {
        reply(parse_redis_value(wire.as_bytes()).expect("a reply"))
    }

    fn bytes(text: &'static str) -> Reply {
        Reply::Bytes(text.into())
    }

    #[test]
    fn replies_are_the_same_in_both_protocols() {
        assert_eq!(read("$-1\r\n"), Ok(Reply::Nil));
        assert_eq!(read("_\r\n"), Ok(Reply::Nil));
        assert_eq!(read(":-7\r\n"), Ok(Reply::Integer(-7)));
        assert_eq!(read("+OK\r\n"), Ok(bytes("OK")));
        assert_eq!(read("+PONG\r\n"), Ok(bytes("PONG")));
        assert_eq!(read("$2\r\nhi\r\n"), Ok(bytes("hi")));
        assert_eq!(read("=6\r\ntxt:hi\r\n"), Ok(bytes("hi")), "as in replies to INFO");
        let pair = vec![bytes("a"), Reply::Integer(1)];
        assert_eq!(read("%1\r\n+a\r\n:1\r\n"), Ok(Reply::List(pair)), "as a part of CLUSTER SLOTS");
        let list = vec![Reply::Integer(1), Reply::Error("WRONGTYPE no hash".to_owned())];
        assert_eq!(read("*2\r\n:1\r\n-WRONGTYPE no hash\r\n"), Ok(Reply::List(list)));
    }

    #[test]
    fn errors_keep_the_words_of_the_server() {
        for words in ["NOSCRIPT No matching script.", "ERR unknown command 'x'", "BUSY", "TOKENS x: y"] {
            let read = read(&format!("-{words}\r\n"));
            assert!(read == Err(CallError::Refused(words.to_owned())), "{words}: {read:?}");
        }
    }

    #[test]
    fn other_types_are_unreadable() {
        for value in [Value::Boolean(true), Value::Double(0.5)] {
            assert!(matches!(reply(value), Err(CallError::Unreadable(_))));
        }
    }

    #[test]
    fn channel_of_a_message_is_text() {
        assert_eq!(channel(&Value::BulkString(b"c".to_vec())), Some("c"));
        assert_eq!(channel(&Value::BulkString(vec![0xff])), None);
        let verbatim = Value::VerbatimString { format: VerbatimFormat::Text, text: "c".to_owned() };
        assert_eq!(channel(&verbatim), None);
    }
}
