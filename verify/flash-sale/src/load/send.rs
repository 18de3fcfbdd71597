//! Sends an order repeatedly until its outcome is known or the client gives up.

use super::{Aborts, CUSTOMER, Entry, Outcome, Wish};
use crate::http_client::{HttpClient, SendError};
use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{error::Error, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// Maximum size of a response, in bytes.
const MAX_ANSWER: usize = 64 * 1024;
/// Maximum number of attempts for an order whose outcome stays unknown.
const MAX_ATTEMPTS: u32 = 20;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum time after which a client aborts a request.
const ABORTED_WITHIN: Duration = Duration::from_millis(12);

/// A client that places orders at the shops.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) client: HttpClient<Full<Bytes>>,
    pub(super) timeout: Duration,
    pub(super) aborts: Option<Aborts>,
    /// Start of the run.
    pub(super) zero: Instant,
}

struct Answer {
    outcome: Outcome,
    server: Option<String>,
}

impl Sender {
    /// Places the order. Its latency counts from `intended`.
    pub(super) async fn place(&self, wish: Wish, intended: Instant) -> Entry {
        let mut random = StdRng::seed_from_u64(wish.seed);
        let mut attempts = 0;
        let mut answer;
        let mut is_open = false;
        loop {
            attempts += 1;
            let aborted =
                self.aborts.filter(|aborts| attempts == 1 && random.random_ratio(aborts.percent, 100));
            let limit = match aborted {
                Some(_) => random.random_range(Duration::ZERO..ABORTED_WITHIN),
                None => self.timeout,
            };
            answer = match timeout(limit, self.send(&wish)).await {
                Ok(answer) => answer,
                Err(_) => Answer { outcome: Outcome::unknown("timeout"), server: None },
            };
            let is_unknown = matches!(answer.outcome, Outcome::Unknown { .. });
            if self.aborts.is_none() || !is_unknown || attempts >= MAX_ATTEMPTS {
                break;
            }
            is_open = true;
            sleep(PAUSE).await;
        }
        let outcome = if is_open { answer.outcome.after_unknown() } else { answer.outcome };
        Entry {
            key: wish.key,
            sku: wish.sku,
            quantity: wish.quantity,
            outcome,
            server: answer.server,
            start_us: micros(intended.saturating_duration_since(self.zero)),
            latency_us: micros(intended.elapsed()),
            attempts,
        }
    }

    async fn send(&self, wish: &Wish) -> Answer {
        let unknown = |reason: String| Answer { outcome: Outcome::unknown(reason), server: None };
        let request = Request::post(format!("/products/{}/orders", wish.sku))
            .header(CONTENT_TYPE, "application/json")
            .header("x-customer", CUSTOMER)
            .header("idempotency-key", &wish.key)
            .body(Full::from(format!(r#"{{"quantity":{}}}"#, wish.quantity)));
        let request = match request {
            Ok(request) => request,
            Err(error) => return refused(error.to_string()),
        };
        let response = match self.client.send(request).await {
            Ok(response) => response,
            Err(SendError::NotSent { .. }) => return refused("not-sent".into()),
            Err(SendError::Lost(error)) => return unknown(last_cause(&error)),
        };
        let server = response.headers().get("x-shop").and_then(|name| name.to_str().ok()).map(str::to_owned);
        let status: StatusCode = response.status();
        match Limited::new(response.into_body(), MAX_ANSWER).collect().await {
            Ok(body) => Answer { outcome: Outcome::of(status, &body.to_bytes()), server },
            Err(error) => Answer { server, ..unknown(last_cause(&*error)) },
        }
    }
}

fn refused(reason: String) -> Answer {
    Answer { outcome: Outcome::Refused { reason }, server: None }
}

fn last_cause(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
