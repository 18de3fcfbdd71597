//! The least that a layer does, written straight on lock-core, as the measure of `LockLayer`: it waits for the lock,
//! gives the handler a handle that can release it early, keeps it until the body ends, and checks for its loss after
//! the head and at the end. One fixed key, and no limits, policies, events, spans or detached handlers.

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::Full;
use lock_core::{Hold, Lock, LockGuard};
use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll},
    time::Duration,
};

type Shared = Mutex<Option<LockGuard>>;

/// The handler's handle. A handler would release the lock through the second field.
#[derive(Clone)]
struct Handle(#[expect(dead_code)] Hold, #[expect(dead_code)] Weak<Shared>);

/// A body that keeps the lock until its end.
pub(super) struct Keeping {
    body: Full<Bytes>,
    lock: Option<(Hold, Arc<Shared>)>,
}

pub(super) async fn serve<H, F>(
    lock: &Lock,
    mut request: Request<Full<Bytes>>,
    handler: H,
) -> Result<Response<Keeping>, Infallible>
where
    H: FnOnce(Request<Full<Bytes>>) -> F,
    F: Future<Output = Result<Response<Full<Bytes>>, Infallible>>,
{
    let Ok(guard) = lock.acquire_timeout(Duration::from_secs(1)).await else { return Ok(unavailable()) };
    let hold = guard.hold();
    let shared = Arc::new(Mutex::new(Some(guard)));
    request.extensions_mut().insert(Handle(hold.clone(), Arc::downgrade(&shared)));
    let response = handler(request).await?;
    if !hold.is_held() {
        return Ok(unavailable());
    }
    Ok(response.map(|body| Keeping { body, lock: Some((hold, shared)) }))
}

fn unavailable() -> Response<Keeping> {
    let mut response = Response::new(Keeping { body: Full::default(), lock: None });
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

impl Body for Keeping {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx).map_err(|never| match never {});
        if let (Poll::Ready(_), true) = (&frame, self.body.is_end_stream())
            && let Some((hold, shared)) = self.lock.take()
            && let Some(Some(guard)) = Arc::into_inner(shared).and_then(|shared| shared.into_inner().ok())
        {
            if !hold.is_held() {
                return Poll::Ready(Some(Err(io::Error::other("the lock was lost"))));
            }
            drop(guard.release().now_or_never());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
