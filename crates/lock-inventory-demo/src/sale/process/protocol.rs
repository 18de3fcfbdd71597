//! The lines between the processes: JSON, one value a line.

use crate::{
    domain::{Answer, OrderNumber},
    redis::RedisUrl,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A shop that a process is to be: its first line. Each line after it is an [`Order`](crate::domain::Order).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::sale) struct Job {
    /// The number of its shop, from 1.
    pub(in crate::sale) shop: u32,
    /// The seed of the delays of the payment service.
    pub(in crate::sale) seed: u64,
    /// The place of the locks; none in a shop that takes none.
    pub(in crate::sale) locks: Option<LocksOnRedis>,
}

/// The place of the locks of a sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::sale) struct LocksOnRedis {
    /// The address of the server. It may have a password.
    #[serde(with = "url_with_secrets")]
    pub(in crate::sale) url: RedisUrl,
    /// The text that the names of the locks begin with.
    pub(in crate::sale) prefix: String,
}

/// Here alone: an address that is shown anywhere else has no password.
mod url_with_secrets {
    use super::RedisUrl;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(url: &RedisUrl, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(url.with_secrets())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RedisUrl, D::Error> {
        RedisUrl::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A line of a shop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// It can sell.
    Ready,
    /// The answer to the buyer of this order.
    Answer { order: OrderNumber, answer: Answer },
    /// It has released all locks.
    Closed,
    /// It cannot go on, for this reason.
    Failed(String),
}

/// A value as a line, with its end.
pub(super) fn line(value: &impl Serialize) -> String {
    let mut line =
        serde_json::to_string(value).expect("values of this protocol have text keys and do not fail");
    line.push('\n');
    line
}

/// The value of a line.
pub(super) fn parse<T: DeserializeOwned>(line: &str) -> Result<T, NotUnderstood> {
    serde_json::from_str(line).map_err(|_| NotUnderstood)
}

/// A line is no such value. Neither the line nor its error is repeated: the line may have a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line between the processes was not understood: is this program being replaced as it runs?")]
pub(super) struct NotUnderstood;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Order, Outcome, Quantity, Sku};
    use std::time::Duration;

    fn round_trip<T: Serialize + DeserializeOwned>(value: &T) -> Result<T, NotUnderstood> {
        let line = line(value);
        assert_eq!(line.find('\n'), Some(line.len() - 1), "one line: {line:?}");
        parse(&line)
    }

    #[test]
    fn what_is_said_is_understood() {
        let url = RedisUrl::parse("redis://user:a%20b@cache:7000/1").unwrap();
        for locks in [None, Some(LocksOnRedis { url, prefix: "demo:1:".to_owned() })] {
            let job = Job { shop: 2, seed: u64::MAX, locks };
            assert_eq!(round_trip(&job), Ok(job));
        }
        let (sku, quantity) = (Sku::parse("A-1").unwrap(), Quantity::new(2));
        let order = Order { number: OrderNumber::new(17), sku, quantity, cents: 2_580 };
        assert_eq!(round_trip(&order), Ok(order));
        let waits = [None, Some(Duration::from_micros(312))];
        let answers =
            [Outcome::Accepted, Outcome::SoldOut, Outcome::Stale].into_iter().zip(waits.into_iter().cycle());
        let answers = answers.map(|(outcome, waited)| Reply::Answer {
            order: OrderNumber::new(17),
            answer: Answer { outcome, waited },
        });
        let others = [Reply::Ready, Reply::Closed, Reply::Failed("a text with blanks".into())];
        for reply in answers.chain(others) {
            assert_eq!(round_trip(&reply), Ok(reply));
        }
    }

    #[test]
    fn a_text_of_several_lines_stays_one_line() {
        let reply = Reply::Failed("one\ntwo".into());
        assert_eq!(round_trip(&reply), Ok(reply));
    }

    #[test]
    fn anything_else_is_refused() {
        for line in [
            "",
            r#"{"shop":1}"#,
            r#"{"shop":"x","seed":1}"#,
            r#"{"shop":1,"seed":1,"locks":{"prefix":"demo:"}}"#,
            r#"{"shop":1,"seed":1,"locks":{"prefix":"demo:","url":"http://a"}}"#,
        ] {
            assert_eq!(parse::<Job>(line), Err(NotUnderstood), "{line}");
        }
        for line in [
            "",
            r#"{"number":1,"sku":"A-1","quantity":2}"#,
            r#"{"number":1,"sku":"A/1","quantity":2,"cents":3}"#,
            r#"{"number":-1,"sku":"A-1","quantity":2,"cents":3}"#,
        ] {
            assert_eq!(parse::<Order>(line), Err(NotUnderstood), "{line}");
        }
        for line in [
            "",
            "hello",
            r#""answer""#,
            r#"{"answer":{"order":1}}"#,
            r#"{"answer":{"order":1,"answer":{"outcome":"lost","waited":null}}}"#,
            r#"{"answer":{"order":1,"answer":{"outcome":"stale","waited":"x"}}}"#,
        ] {
            assert_eq!(parse::<Reply>(line), Err(NotUnderstood), "{line}");
        }
    }
}
