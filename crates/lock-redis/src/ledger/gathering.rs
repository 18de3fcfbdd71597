//! Batching of the requests that schedulers repeat. One call carries the requests of many groups.
//!
//! A request waits briefly for others, because the schedulers of one process send theirs at the
//! same time. Claims never wait. A task in the keeper sends the batch, so it does not depend on any of its callers.

use crate::{
    backend::RedisBackend,
    client::Client,
    cluster::slot_of,
    error::{RequestError, runtime_ended},
    route::Route,
    script::{self, Script},
    script_reply::ScriptReply,
};
use futures_util::future::join_all;
use lock_core::__private::lock;
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

/// The time without another request after which a batch is sent.
const QUIET: Duration = Duration::from_millis(2);

/// The maximum time for which a batch waits for further requests.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// The maximum number of keys in a call, unless a single request has more. It allows 64 heartbeats, which block the
/// server for about a millisecond.
const MAX_KEYS: usize = 128;

/// The batch that still accepts requests, if there is one. Its task owns it: if that ends, the requests fail.
#[derive(Default)]
pub(crate) struct Gathering(Mutex<Weak<Mutex<Requests>>>);

/// The requests of a batch, or `None` once they are being sent.
type Requests = Option<Vec<Request>>;

struct Request {
    script: &'static Script,
    keys: Vec<String>,
    arguments: Vec<String>,
    /// Closed when the caller is dropped.
    answer: oneshot::Sender<Result<ScriptReply, RequestError>>,
}

impl<C: Client> RedisBackend<C> {
    /// Runs a script that a scheduler repeats, possibly in one call with those of other schedulers. All its keys share
    /// one slot.
    pub(super) async fn run_together(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Result<ScriptReply, RequestError> {
        let (answer, answered) = oneshot::channel();
        self.gather(Request { script, keys, arguments, answer });
        answered.await.unwrap_or_else(|_| Err(runtime_ended(script.name)))
    }

    /// Adds a request to the open batch, or opens another one.
    fn gather(&self, request: Request) {
        let mut open = lock(&self.gathering().0);
        let request = match open.upgrade() {
            Some(batch) => match join(&batch, request) {
                Ok(()) => return,
                Err(request) => request,
            },
            None => request,
        };
        let requests = Arc::new(Mutex::new(Some(vec![request])));
        *open = Arc::downgrade(&requests);
        drop(open);
        self.home().keeper().spawn(gather_and_send(self.clone(), requests));
    }
}

/// Adds a request to a batch, or returns it if the batch is full or no longer waits.
fn join(batch: &Mutex<Requests>, request: Request) -> Result<(), Request> {
    let mut requests = lock(batch);
    let Some(requests) = &mut *requests else { return Err(request) };
    let keys: usize = requests.iter().map(|request| request.keys.len()).sum();
    if keys + request.keys.len() > MAX_KEYS {
        return Err(request);
    }
    requests.push(request);
    Ok(())
}

/// Waits for further requests, sends all of them, and completes each.
async fn gather_and_send<C: Client>(redis: RedisBackend<C>, requests: Arc<Mutex<Requests>>) {
    let begun = Instant::now();
    let mut seen = 0;
    loop {
        sleep(QUIET).await;
        let gathered = lock(&requests).as_ref().map_or(0, Vec::len);
        if gathered == seen || begun.elapsed() >= MAX_WAIT {
            break;
        }
        seen = gathered;
    }
    let mut requests = lock(&requests).take().unwrap_or_default();
    requests.retain(|request| !request.answer.is_closed());
    if requests.is_empty() {
        return;
    }
    // Without a route, each request fails with the reason.
    if redis.route("send heartbeats").await.is_ok_and(Route::is_cluster) {
        requests.sort_by_cached_key(slot);
        let slots = requests.chunk_by(|a, b| slot(a) == slot(b));
        let replies = join_all(slots.map(|requests| send(&redis, requests))).await;
        answer(requests, replies.into_iter().flatten());
    } else {
        let replies = send(&redis, &requests).await;
        answer(requests, replies);
    }
}

fn slot(request: &Request) -> u16 {
    request.keys.first().map_or(0, |key| slot_of(key))
}

fn answer(requests: Vec<Request>, replies: impl IntoIterator<Item = Result<ScriptReply, RequestError>>) {
    for (request, reply) in requests.into_iter().zip(replies) {
        // The caller may be gone.
        let _ = request.answer.send(reply);
    }
}

/// Sends requests whose keys share one slot in one call.
async fn send<C: Client>(
    redis: &RedisBackend<C>,
    requests: &[Request],
) -> Vec<Result<ScriptReply, RequestError>> {
    let alone =
        |request: &Request| redis.run(request.script, request.keys.clone(), request.arguments.clone());
    let reply = match requests {
        [] => return Vec::new(),
        [request] => return vec![alone(request).await],
        _ => together(redis, requests).await,
    };
    match reply {
        Ok(reply) => reply.split(&requests.iter().map(|request| request.script.name).collect::<Vec<_>>()),
        // The server checks the permissions for all keys before it runs a script, so some requests may succeed alone.
        Err(error) if error.is_denied() => join_all(requests.iter().map(alone)).await,
        Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
    }
}

async fn together<C: Client>(
    redis: &RedisBackend<C>,
    requests: &[Request],
) -> Result<ScriptReply, RequestError> {
    let keys = requests.iter().flat_map(|request| request.keys.iter().cloned()).collect();
    let arguments = requests.iter().flat_map(|Request { script, keys, arguments, .. }| {
        let head = [script.name.to_owned(), keys.len().to_string(), arguments.len().to_string()];
        head.into_iter().chain(arguments.iter().cloned())
    });
    redis.run(&script::LEDGER_BATCH, keys, arguments.collect()).await
}
