//! The service inside the lock, which begins an attempt, runs the handler and stores the response.

use super::{
    attempt::{Attempt, Execution},
    request::Fingerprint,
    response::{self, Collected},
    store::{BeginRequest, Begun, IdempotencyStore, StoreError},
};
use crate::{
    buffer::BufferedBody,
    config::Config,
    handle::{LockHandle, LockStatus},
    log::OutageLine,
    observer::{IdempotencyOutcome, LayerEvent, Observers},
    reject::{BoxError, RejectReason, Rejection, RejectionBody},
};
use futures_util::future::BoxFuture;
use http::{HeaderName, Request, Response, response::Parts};
use http_body::Body;
use lock_core::{LockName, LostReason};
use std::{
    fmt,
    future::Future,
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};
use tower_service::Service;

/// Longer than any service runs, and short enough to be added to the current time without overflow.
const MAX_RETENTION: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The settings of a layer's records.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) store: Arc<dyn IdempotencyStore>,
    pub(super) retention: Duration,
    pub(super) max_answer: usize,
    pub(super) headers: Arc<[HeaderName]>,
    pub(super) recorded_by_handler: bool,
    pub(super) store_timeout: Duration,
    pub(super) log: Arc<StoreLog>,
}

/// The lines about failures of the store.
#[derive(Debug, Default)]
pub(super) struct StoreLog {
    key: OutageLine,
    response: OutageLine,
}

impl Terms {
    /// Limits the time of a request to the store. A request that was dropped may have been executed.
    async fn in_time<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.store_timeout;
        let late = |_| StoreError::failed(format!("no reply within {limit:?}"));
        tokio::time::timeout(limit, request).await.map_err(late)?
    }
}

/// A service that executes a request once per idempotency key; created by an
/// [`IdempotencyLayer`](super::IdempotencyLayer), inside its lock.
#[derive(Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    terms: Terms,
    config: Arc<Config>,
}

impl<S> IdempotencyService<S> {
    pub(super) fn new(inner: S, terms: Terms, config: Arc<Config>) -> Self {
        Self { inner, terms, config }
    }
}

impl<S, R> Service<Request<BufferedBody>> for IdempotencyService<S>
where
    S: Service<Request<BufferedBody>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Into<BoxError>,
{
    type Response = Response<RejectionBody>;
    type Error = S::Error;
    /// Dropping the future drops the handler and leaves its attempt without a response.
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<BufferedBody>) -> Self::Future {
        // If this layer did not acquire a lock, the status may belong to another layer.
        let (head, body) = request.into_parts();
        let needs_lock = self.config.needs_lock(&head);
        let request = Request::from_parts(head, body);
        let status = request.extensions().get::<LockStatus>().filter(|_| needs_lock);
        let Some(lock) = status.and_then(LockStatus::handle).cloned() else {
            // The filters passed the request through, or its optional key is missing.
            let handler = self.inner.call(request);
            return Box::pin(async move { handler.await.map(response::pass) });
        };
        // Takes the ready service and leaves its clone, which is polled before the next call.
        let clone = self.inner.clone();
        let service = mem::replace(&mut self.inner, clone);
        let (terms, config, observers) = (self.terms.clone(), self.config.clone(), lock.observers());
        let record = config.locks.stored_name(lock.name()).expect("a locked name is valid with its prefix");
        let exchange = Exchange { terms, config, observers, lock, record };
        Box::pin(exchange.run(service, request))
    }
}

/// A request that has its lock.
struct Exchange {
    terms: Terms,
    config: Arc<Config>,
    observers: Option<Observers>,
    lock: LockHandle,
    /// The name of the record.
    record: LockName,
}

impl Exchange {
    async fn run<S, R>(
        self,
        mut service: S,
        mut request: Request<BufferedBody>,
    ) -> Result<Response<RejectionBody>, S::Error>
    where
        S: Service<Request<BufferedBody>, Response = Response<R>>,
        R: Body + Send + 'static,
        R::Data: Send,
        R::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        let begin = self.begin(Fingerprint::of(&head, body.bytes()));
        let begun = self.terms.in_time(self.terms.store.begin(&begin)).await;
        let number = match begun {
            Ok(Begun::Started { number }) => number,
            Ok(Begun::Answered(answer)) => {
                self.notify(IdempotencyOutcome::Replayed);
                return Ok(response::replay(answer));
            }
            Ok(Begun::Mismatch) => {
                return Ok(self.reject(IdempotencyOutcome::KeyReused, RejectReason::KeyReused));
            }
            Ok(Begun::Superseded) => {
                return Ok(self.reject(IdempotencyOutcome::Superseded, RejectReason::Contended));
            }
            Err(error) => {
                if let Some(left_out) = self.terms.log.key.due() {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        left_out,
                        "failed to record the idempotency key"
                    );
                }
                return Ok(self.reject(IdempotencyOutcome::Unavailable, RejectReason::RecordsUnavailable));
            }
        };
        if !self.lock.begin_work() {
            // The layer detects the loss too: it responds and notifies the observers.
            return Ok(self.answer(RejectReason::LostBeforeWork(LostReason::Gone)));
        }
        let attempt = Attempt::new(self.record.clone(), self.lock.fencing_token(), number);
        request = Request::from_parts(head, body);
        request.extensions_mut().insert(attempt.clone());
        let response = service.call(request).await?;
        Ok(self.settle(&attempt, response).await)
    }

    fn begin(&self, fingerprint: Fingerprint) -> BeginRequest {
        let now = SystemTime::now();
        BeginRequest {
            name: self.record.clone(),
            token: self.lock.fencing_token(),
            fingerprint,
            now,
            expires_at: now + self.terms.retention.min(MAX_RETENTION),
        }
    }

    /// Stores the handler's response, or frees the key if no work was done.
    async fn settle<R>(&self, attempt: &Attempt, response: Response<R>) -> Response<RejectionBody>
    where
        R: Body + Send + 'static,
        R::Data: Send,
        R::Error: Into<BoxError>,
    {
        let (head, body) = response.into_parts();
        if Execution::of(&head) == Execution::NotStarted {
            // An earlier attempt may have done the work, so its record is kept.
            if attempt.number() == 1
                && let Err(error) = self.terms.in_time(self.terms.store.abandon(attempt)).await
                && let Some(left_out) = self.terms.log.key.due()
            {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    left_out,
                    "failed to free the idempotency key"
                );
            }
            self.notify(IdempotencyOutcome::NotStarted);
            return response::pass(Response::from_parts(head, body));
        }
        if self.terms.recorded_by_handler {
            self.notify(IdempotencyOutcome::Executed);
            return response::pass(Response::from_parts(head, body));
        }
        let (answer, body) = match response::collect(body, self.terms.max_answer).await {
            Collected::Whole(bytes) => {
                (response::stored(&head, bytes.clone(), &self.terms.headers), response::whole(bytes))
            }
            Collected::TooLarge(body) => (response::too_large(head.status), body),
            Collected::Failed(body) => {
                self.notify(IdempotencyOutcome::NotStored);
                return Response::from_parts(head, body);
            }
        };
        self.complete(attempt, &answer, head, body).await
    }

    async fn complete(
        &self,
        attempt: &Attempt,
        answer: &Response<bytes::Bytes>,
        head: Parts,
        body: RejectionBody,
    ) -> Response<RejectionBody> {
        match self.terms.in_time(self.terms.store.complete(attempt, answer)).await {
            Ok(()) => self.notify(IdempotencyOutcome::Executed),
            // The newer attempt runs the handler again, and its response is replayed.
            Err(StoreError::Superseded) => {
                return self.reject(IdempotencyOutcome::Superseded, RejectReason::Lost(LostReason::Gone));
            }
            Err(error) => {
                if let Some(left_out) = self.terms.log.response.due() {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        left_out,
                        "failed to store the response: a retry will run the handler again"
                    );
                }
                self.notify(IdempotencyOutcome::NotStored);
            }
        }
        Response::from_parts(head, body)
    }

    fn reject(&self, outcome: IdempotencyOutcome, reason: RejectReason) -> Response<RejectionBody> {
        self.notify(outcome);
        self.answer(reason)
    }

    fn answer(&self, reason: RejectReason) -> Response<RejectionBody> {
        let key = self.config.key_hash(&self.lock.name().clone().into());
        let status = reason.status();
        self.config.answer(Rejection::new(reason, status, Some(key), self.config.wait))
    }

    fn notify(&self, outcome: IdempotencyOutcome) {
        if let Some(observers) = &self.observers {
            observers.notify(|route| LayerEvent::Idempotency { route, outcome });
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService")
            .field("inner", &self.inner)
            .field("store", &self.terms.store)
            .finish_non_exhaustive()
    }
}
