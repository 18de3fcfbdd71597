//! The outcome of an order from the client's point of view.

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// The outcome of an order from the client's point of view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The shop confirmed the order, which must be written.
    Acknowledged {
        /// Fencing token of the hold that sold the order; `None` without a lock.
        token: Option<i64>,
    },
    /// The shop refused the order for good. It must not be written.
    Refused {
        /// Last segment of the problem type.
        reason: String,
    },
    /// The outcome is unknown to the client. The order may or may not be written, now or later.
    Unknown {
        /// Last segment of the problem type, or a description of the connection failure.
        reason: String,
        /// Token of a stale holder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<i64>,
        /// Newer token that caused the refusal of a stale holder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        newer: Option<i64>,
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
    /// Reason of a stale holder: a newer one had already read the stock. The next request with the key, or a job, decides
    /// about the order.
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
        // These refusals come from the layers in front of the handler: nothing was done. After any other 5xx the order may be
        // written, or a job may write it later.
        let before_handler = [
            "timeout",
            "contended",
            "overloaded",
            "backend_error",
            "lost_before_work",
            "shut_down",
            "records_unavailable",
            "no-server",
        ];
        let is_unknown = match status {
            // Another attempt with this key is still in progress.
            StatusCode::CONFLICT => matches!(word, "contended" | "timeout"),
            status => status.is_server_error() && !before_handler.contains(&word),
        };
        match is_unknown {
            true => Self::Unknown { reason, token: body.token, newer: body.newer },
            false => Self::Refused { reason },
        }
    }

    /// Returns an outcome that is unknown for this reason.
    #[must_use]
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), token: None, newer: None }
    }

    /// Returns the outcome of an order, given that an earlier attempt got no response. A refusal is
    /// then inconclusive, because the earlier attempt may still be executed.
    #[must_use]
    pub(super) fn after_unknown(self) -> Self {
        match self {
            Self::Refused { reason } => Self::unknown(format!("earlier attempt, then {reason}")),
            outcome => outcome,
        }
    }

    /// Returns a short description of the outcome, with the reason if there is one.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Acknowledged { .. } => "acknowledged".into(),
            Self::Refused { reason } => format!("refused: {reason}"),
            Self::Unknown { reason, .. } => format!("unknown: {reason}"),
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
        Outcome::Refused { reason: reason.into() }
    }

    #[test]
    fn confirmed_order_is_acknowledged_with_its_token() {
        let body = r#"{"order":"load/k","sku":"A-1","quantity":1,"token":7}"#;
        assert_eq!(of(201, body), Outcome::Acknowledged { token: Some(7) });
        assert_eq!(of(200, r#"{"order":"load/k","token":null}"#), Outcome::Acknowledged { token: None });
    }

    #[test]
    fn refusal_contains_its_reason() {
        assert_eq!(of(409, r#"{"type":"urn:problem-type:shop:sold-out"}"#), refused("sold-out"));
        assert_eq!(of(503, r#"{"type":"urn:problem-type:distlock:timeout"}"#), refused("timeout"));
        assert_eq!(of(422, ""), refused("422"));
    }

    #[test]
    fn order_of_a_stale_holder_is_unknown_with_both_tokens() {
        let body = r#"{"type":"urn:problem-type:shop:stale-holder","token":7,"newer":9}"#;
        let expected = Outcome::Unknown { reason: Outcome::STALE.into(), token: Some(7), newer: Some(9) };
        assert_eq!(of(503, body), expected);
    }

    #[test]
    fn inconclusive_response_is_unknown() {
        assert_eq!(
            of(502, r#"{"type":"urn:problem-type:shop:bad-gateway"}"#),
            Outcome::unknown("bad-gateway")
        );
        assert_eq!(of(503, r#"{"type":"urn:problem-type:distlock:lost"}"#), Outcome::unknown("lost"));
        assert_eq!(of(503, r#"{"type":"urn:problem-type:shop:database"}"#), Outcome::unknown("database"));
        assert_eq!(of(503, "busy"), Outcome::unknown("503"));
        assert_eq!(of(500, ""), Outcome::unknown("500"));
        assert_eq!(of(409, r#"{"type":"urn:problem-type:distlock:timeout"}"#), Outcome::unknown("timeout"));
    }

    #[test]
    fn refusal_after_an_unanswered_attempt_is_unknown() {
        assert_eq!(refused("sold-out").after_unknown(), Outcome::unknown("earlier attempt, then sold-out"));
        let acknowledged = Outcome::Acknowledged { token: None };
        assert_eq!(acknowledged.clone().after_unknown(), acknowledged);
    }
}
