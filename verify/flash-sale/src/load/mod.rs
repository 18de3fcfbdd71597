//! The load generator: orders over HTTP, their outcomes and their latencies.
//!
//! | model | arrivals | latency |
//! | --- | --- | --- |
//! | open, burst | at fixed times, regardless of the responses | from the *intended* start, so a stall adds to the latency of every order that arrives during it |
//! | closed | each client sends its next order after a response | from the actual start |
//!
//! The same seed gives the same orders, keys and arrivals. Every outcome is a line in the
//! [journal](Entry). The command `audit` compares the journal with the orders.

mod journal;
mod orders;
mod summary;

pub use journal::{Entry, Journal, JournalError, Outcome, read};
pub use orders::{Arrivals, CUSTOMER, OrderMix, Orders, Profile, Wish};
pub use summary::{Latency, Point, Rate, Summary};

use crate::http_client::{HttpClient, SendError};
use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use lock_testkit::Seed;
use std::{
    error::Error,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Maximum size of a response, in bytes.
const MAX_ANSWER: usize = 64 * 1024;
/// Maximum number of attempts for an order whose outcome stays unknown.
const MAX_ATTEMPTS: u32 = 20;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum time after which a client aborts a request.
const ABORTED_WITHIN: Duration = Duration::from_millis(12);

/// The plan of a load.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Address of the shop or the balancer.
    pub target: SocketAddr,
    /// Arrival model.
    pub profile: Profile,
    /// End of the load.
    pub extent: Extent,
    /// Mix of orders.
    pub mix: OrderMix,
    /// Time that a client waits for one response.
    pub timeout: Duration,
    /// Aborted requests; `None` for no aborts.
    pub aborts: Option<Aborts>,
    /// Path of the journal; `None` for no journal.
    pub journal: Option<PathBuf>,
    /// Start of the run, to which the times in the journal are relative.
    pub zero: Instant,
}

/// The end of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// After this many orders.
    Orders(u64),
    /// After this time. No further order starts.
    Time(Duration),
}

/// Requests that clients abort and repeat with the same key until the outcome is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborts {
    /// Percentage of orders whose first request is aborted, at most 100.
    pub percent: u32,
}

/// An error that ended a load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The journal could not be written.
    #[error("could not write the journal")]
    Journal(#[from] io::Error),
}

/// Runs a load. Returns its summary, and its entries in the order in which the orders ended.
///
/// # Errors
/// Returns [`LoadError`] if the journal cannot be written.
///
/// # Cancel safety
/// Dropping this drops all requests in flight. The journal keeps the orders that have already ended.
pub async fn run(plan: LoadPlan) -> Result<(Summary, Vec<Entry>), LoadError> {
    let mut journal = plan.journal.as_deref().map(Journal::create).transpose()?;
    let sender = Arc::new(Sender {
        client: HttpClient::new(plan.target),
        timeout: plan.timeout,
        aborts: plan.aborts,
        zero: plan.zero,
    });
    let (ended, mut ends) = mpsc::unbounded_channel();
    let begin = Instant::now();
    let clients = async {
        match plan.profile {
            Profile::Closed { clients } => {
                closed(&plan, clients, &sender, ended).await;
                None
            }
            open => arrive(&plan, open, &sender, ended).await,
        }
    };
    let mut entries = Vec::new();
    let record = async {
        while let Some(entry) = ends.recv().await {
            if let Some(journal) = &mut journal {
                journal.record(&entry)?;
            }
            entries.push(entry);
        }
        journal.as_mut().map_or(Ok(()), Journal::flush)
    };
    let (rate, recorded) = tokio::join!(clients, record);
    recorded?;
    Ok((Summary::of(&entries, begin.elapsed(), rate), entries))
}

/// Runs the open model. Orders start at their arrival times, regardless of the number in flight.
async fn arrive(
    plan: &LoadPlan,
    profile: Profile,
    sender: &Arc<Sender>,
    ended: mpsc::UnboundedSender<Entry>,
) -> Option<Rate> {
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    let (mut sent, mut intended, mut last, mut lag) = (0_u64, Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for (at, wish) in profile.arrivals()?.zip(Orders::new(plan.mix.clone())) {
        intended = at;
        if plan.extent.is_over(sent, at) {
            break;
        }
        sleep_until(begin + at).await;
        last = begin.elapsed();
        lag = lag.max(last - at);
        let (sender, ended) = (Arc::clone(sender), ended.clone());
        tasks.spawn(async move {
            let entry = sender.place(wish, begin + at).await;
            // The receiver exists until all senders are dropped.
            let _ = ended.send(entry);
        });
        sent += 1;
        while tasks.try_join_next().is_some() {}
    }
    drop(ended);
    let sent = sent as f64;
    // `intended` is now the planned end of the load, so only a late last start prolongs it.
    let late = last.saturating_sub(intended);
    let rate = (sent > 0.0).then(|| Rate {
        requested: sent / intended.as_secs_f64(),
        achieved: sent / (intended + late).as_secs_f64(),
        max_lag_ms: lag.as_secs_f64() * 1e3,
    });
    tasks.join_all().await;
    rate
}

/// Runs the closed model. Each client waits for its response before its next order.
async fn closed(plan: &LoadPlan, clients: u32, sender: &Arc<Sender>, ended: mpsc::UnboundedSender<Entry>) {
    let begin = Instant::now();
    let orders = Arc::new(Mutex::new((Orders::new(plan.mix.clone()), 0_u64)));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (sender, ended, orders, extent) =
            (Arc::clone(sender), ended.clone(), Arc::clone(&orders), plan.extent);
        let next = move || {
            let (orders, sent) = &mut *orders.lock().unwrap_or_else(PoisonError::into_inner);
            if extent.is_over(*sent, begin.elapsed()) {
                return None;
            }
            *sent += 1;
            orders.next()
        };
        tasks.spawn(async move {
            while let Some(wish) = next() {
                let _ = ended.send(sender.place(wish, Instant::now()).await);
            }
        });
    }
    drop(ended);
    tasks.join_all().await;
}

impl Extent {
    fn is_over(self, sent: u64, elapsed: Duration) -> bool {
        match self {
            Self::Orders(orders) => sent >= orders,
            Self::Time(time) => elapsed >= time,
        }
    }
}

/// A client that places orders at the shops.
#[derive(Debug)]
struct Sender {
    client: HttpClient<Full<Bytes>>,
    timeout: Duration,
    aborts: Option<Aborts>,
    /// Start of the run.
    zero: Instant,
}

struct Answer {
    outcome: Outcome,
    server: Option<String>,
}

impl Sender {
    /// Places the order. Its latency counts from `intended`.
    async fn place(&self, wish: Wish, intended: Instant) -> Entry {
        let mut random = Seed::new(wish.seed).stream();
        let mut attempts = 0;
        let mut answer;
        let mut is_open = false;
        loop {
            attempts += 1;
            let aborted =
                self.aborts.filter(|aborts| attempts == 1 && random.below(100) < aborts.percent.into());
            let limit = match aborted {
                Some(_) => Duration::from_micros(random.below(micros(ABORTED_WITHIN))),
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
