//! The outcome of an order from the client's point of view.

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// The outcome of an order from the client's point of view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The shop confirmed the order. The ledger must contain exactly one row with its key.
    Acknowledged {
        /// Fencing token of the hold that sold the order; `None` without a lock.
        token: Option<i64>,
    },
    /// The shop refused the order. The ledger must not contain it.
    Refused {
        /// Last segment of the problem type.
        reason: String,
        /// Token of a stale write.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<i64>,
        /// Newer token that caused the refusal of a stale write.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        newer: Option<i64>,
    },
    /// The outcome is unknown to the client. The ledger may or may not contain the order.
    Unknown {
        /// Last segment of the problem type, or a description of the connection failure.
        reason: String,
    },
}

/// The relevant members of an order's response or of a problem document.
#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(default, rename = "type")]
    kind: String,
    token: Option<i64>,
    newer: Option<i64>,
}

impl Outcome {
    /// Reason for a refused write: a newer holder had already read the stock.
    pub const STALE: &str = "stale-holder";
    /// Reason for a refused order: too few units are left.
    pub const SOLD_OUT: &str = "sold-out";

    /// Returns the outcome of a response.
    #[must_use]
    pub fn of(status: StatusCode, body: &[u8]) -> Self {
        let body: Body = serde_json::from_slice(body).unwrap_or_default();
        if status.is_success() {
            return Self::Acknowledged { token: body.token };
        }
        let word = body.kind.rsplit([':', '/']).next().unwrap_or_default();
        let reason = if word.is_empty() { status.as_str() } else { word }.to_owned();
        // A handler that lost its lock, or ended before its response, may already have written the
        // order.
        let may_be_done = match status {
            StatusCode::SERVICE_UNAVAILABLE => word.is_empty() || word == "lost",
            // Another attempt with this key is still in progress.
            StatusCode::CONFLICT => word == "in-progress",
            status => status.is_server_error(),
        };
        match may_be_done {
            true => Self::Unknown { reason },
            false => Self::Refused { reason, token: body.token, newer: body.newer },
        }
    }

    /// Returns the outcome of an order, given that an earlier attempt got no response. A refusal is
    /// then inconclusive, because the earlier attempt may still be executed.
    #[must_use]
    pub(super) fn after_unknown(self) -> Self {
        match self {
            Self::Refused { reason, .. } => {
                Self::Unknown { reason: format!("earlier attempt, then {reason}") }
            }
            outcome => outcome,
        }
    }

    /// Returns a short description of the outcome, with the reason if there is one.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Acknowledged { .. } => "acknowledged".into(),
            Self::Refused { reason, .. } => format!("refused: {reason}"),
            Self::Unknown { reason } => format!("unknown: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Outcome {
        Outcome::of(StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    fn refused(reason: &str) -> Outcome {
        Outcome::Refused { reason: reason.into(), token: None, newer: None }
    }

    fn unknown(reason: &str) -> Outcome {
        Outcome::Unknown { reason: reason.into() }
    }

    #[test]
    fn confirmed_order_is_acknowledged_with_its_token() {
        let body = r#"{"order":"k","sku":"A-1","quantity":1,"token":7}"#;
        assert_eq!(of(201, body), Outcome::Acknowledged { token: Some(7) });
        assert_eq!(of(200, r#"{"order":"k","token":null}"#), Outcome::Acknowledged { token: None });
    }

    #[test]
    fn refusal_contains_its_reason() {
        assert_eq!(of(409, r#"{"type":"urn:problem-type:demo:sold-out"}"#), refused("sold-out"));
        assert_eq!(of(503, r#"{"type":"urn:problem-type:distlock:timeout"}"#), refused("timeout"));
        assert_eq!(of(422, ""), refused("422"));
    }

    #[test]
    fn stale_write_is_refused_with_both_tokens() {
        let body = r#"{"type":"urn:problem-type:demo:stale-holder","token":7,"newer":9}"#;
        let expected = Outcome::Refused { reason: Outcome::STALE.into(), token: Some(7), newer: Some(9) };
        assert_eq!(of(503, body), expected);
    }

    #[test]
    fn inconclusive_response_is_unknown() {
        assert_eq!(of(502, r#"{"type":"urn:problem-type:demo:bad-gateway"}"#), unknown("bad-gateway"));
        assert_eq!(of(503, r#"{"type":"urn:problem-type:distlock:lost"}"#), unknown("lost"));
        assert_eq!(of(503, "busy"), unknown("503"));
        assert_eq!(of(500, ""), unknown("500"));
        assert_eq!(of(409, r#"{"type":"urn:problem-type:demo:in-progress"}"#), unknown("in-progress"));
    }

    #[test]
    fn refusal_after_an_unanswered_attempt_is_unknown() {
        assert_eq!(refused("sold-out").after_unknown(), unknown("earlier attempt, then sold-out"));
        let acknowledged = Outcome::Acknowledged { token: None };
        assert_eq!(acknowledged.clone().after_unknown(), acknowledged);
    }
}
