//! The lines between the processes. Each is one value here; no field has a blank, except for a text at the end.

use crate::{
    domain::{Answer, Order, OrderNumber, Outcome, Quantity, Sku},
    redis::RedisUrl,
};
use std::{error::Error, fmt, time::Duration};

/// What a process is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sale) struct Job {
    /// The number of its shop, from 1.
    pub(in crate::sale) shop: u32,
    /// What the delays of the payment service are derived from.
    pub(in crate::sale) seed: u64,
    /// Where the locks are and what their names begin with; none in a shop that takes none.
    pub(in crate::sale) locks: Option<(RedisUrl, String)>,
}

impl Job {
    /// It may have a password, so it is no `Display`.
    pub(super) fn line(&self) -> String {
        let Self { shop, seed, locks } = self;
        match locks {
            None => format!("shop {shop} {seed}\n"),
            Some((url, prefix)) => format!("shop {shop} {seed} {prefix} {}\n", url.with_secrets()),
        }
    }

    pub(super) fn parse(line: &str) -> Result<Self, NotUnderstood> {
        let mut words = line.split(' ');
        let ("shop", shop, seed) = (word(&mut words)?, number(&mut words)?, number(&mut words)?) else {
            return Err(NotUnderstood);
        };
        let locks = match (words.next(), words.next()) {
            (None, _) => None,
            (Some(prefix), Some(url)) => {
                Some((RedisUrl::parse(url).map_err(|_| NotUnderstood)?, prefix.to_owned()))
            }
            (Some(_), None) => return Err(NotUnderstood),
        };
        Ok(Self { shop, seed, locks })
    }
}

pub(super) fn order_line(order: &Order) -> String {
    let Order { number, sku, quantity, cents } = order;
    format!("order {} {sku} {} {cents}\n", number.get(), quantity.get())
}

pub(super) fn parse_order(line: &str) -> Result<Order, NotUnderstood> {
    let mut words = line.split(' ');
    if word(&mut words)? != "order" {
        return Err(NotUnderstood);
    }
    Ok(Order {
        number: OrderNumber::new(number(&mut words)?),
        sku: Sku::parse(word(&mut words)?).map_err(|_| NotUnderstood)?,
        quantity: Quantity::new(number(&mut words)?),
        cents: number(&mut words)?,
    })
}

/// What a shop says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// It can sell.
    Ready,
    /// What it told the buyer of this order.
    Answer(OrderNumber, Answer),
    /// It has given back all locks.
    Closed,
    /// It cannot go on.
    Failed(String),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => write!(f, "ready"),
            Self::Answer(number, Answer { outcome, waited }) => {
                write!(f, "answer {} {}", number.get(), name(*outcome))?;
                waited.map_or(Ok(()), |waited| write!(f, " {}", waited.as_micros()))
            }
            Self::Closed => write!(f, "closed"),
            Self::Failed(why) => write!(f, "failed {}", why.replace(['\n', '\r'], " ")),
        }
    }
}

impl Reply {
    pub(super) fn parse(line: &str) -> Result<Self, NotUnderstood> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "ready" => Ok(Self::Ready),
            "closed" => Ok(Self::Closed),
            "failed" => Ok(Self::Failed(rest.to_owned())),
            "answer" => {
                let mut words = rest.split(' ');
                let order = OrderNumber::new(number(&mut words)?);
                let outcome = word(&mut words)?;
                let outcome =
                    OUTCOMES.into_iter().find(|known| name(*known) == outcome).ok_or(NotUnderstood)?;
                let waited = words.next().map(str::parse).transpose().map_err(|_| NotUnderstood)?;
                Ok(Self::Answer(order, Answer { outcome, waited: waited.map(Duration::from_micros) }))
            }
            _ => Err(NotUnderstood),
        }
    }
}

const OUTCOMES: [Outcome; 3] = [Outcome::Accepted, Outcome::SoldOut, Outcome::Stale];

fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted => "accepted",
        Outcome::SoldOut => "sold-out",
        Outcome::Stale => "stale",
    }
}

fn word<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<&'a str, NotUnderstood> {
    words.next().ok_or(NotUnderstood)
}

fn number<'a, N: std::str::FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Result<N, NotUnderstood> {
    word(words)?.parse().map_err(|_| NotUnderstood)
}

/// A line is none of these. It is not repeated: it may have a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotUnderstood;

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a line between the processes was not understood: is this program being replaced as it runs?"
        )
    }
}

impl Error for NotUnderstood {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let url = RedisUrl::parse("redis://user:a%20b@cache:7000/1").unwrap();
        for locks in [None, Some((url, "demo:1:".to_owned()))] {
            let job = Job { shop: 2, seed: u64::MAX, locks };
            assert_eq!(Job::parse(job.line().trim_end()), Ok(job));
        }
        let (sku, quantity) = (Sku::parse("A-1").unwrap(), Quantity::new(2));
        let order = Order { number: OrderNumber::new(17), sku, quantity, cents: 2_580 };
        assert_eq!(parse_order(order_line(&order).trim_end()), Ok(order));
        let waits = [None, Some(Duration::from_micros(312))];
        let answers = OUTCOMES.into_iter().zip(waits.into_iter().cycle());
        let answers =
            answers.map(|(outcome, waited)| Reply::Answer(OrderNumber::new(17), Answer { outcome, waited }));
        let others = [Reply::Ready, Reply::Closed, Reply::Failed("a text with blanks".into())];
        for reply in answers.chain(others) {
            assert_eq!(Reply::parse(&reply.to_string()), Ok(reply));
        }
    }

    #[test]
    fn a_text_of_several_lines_stays_one_line() {
        let reply = Reply::Failed("one\ntwo".into()).to_string();
        assert_eq!(Reply::parse(&reply), Ok(Reply::Failed("one two".into())));
    }

    #[test]
    fn anything_else_is_refused() {
        for line in
            ["", "shop", "shop 1", "shop x 1", "shop 1 1 demo:", "shop 1 1 demo: http://a", "chop 1 1"]
        {
            assert_eq!(Job::parse(line), Err(NotUnderstood), "{line}");
        }
        for line in ["", "order 1 A-1 2", "order 1 A/1 2 3", "order -1 A-1 2 3"] {
            assert_eq!(parse_order(line), Err(NotUnderstood), "{line}");
        }
        for line in ["", "answer", "answer 1", "answer 1 lost", "answer 1 stale x", "hello"] {
            assert_eq!(Reply::parse(line), Err(NotUnderstood), "{line}");
        }
    }
}
