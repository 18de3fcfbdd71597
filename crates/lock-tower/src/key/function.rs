//! Keys from application functions, synchronous or async.

use super::error::{self, KeyError};
use futures_util::future::BoxFuture;
use http::request::Parts;
use lock_core::LockName;
use std::{future::Future, sync::Arc, time::Duration};

/// The time after which a lookup is dropped.
const MAX_LOOK_UP: Duration = Duration::from_secs(5);

pub(super) type Function = Arc<dyn Fn(&Parts) -> Result<String, KeyError> + Send + Sync>;

type Reading = BoxFuture<'static, Result<String, KeyError>>;
pub(super) type AsyncFunction = Arc<dyn Fn(&Parts) -> Reading + Send + Sync>;

pub(super) fn boxed<F, W>(read: F) -> AsyncFunction
where
    F: Fn(&Parts) -> W + Send + Sync + 'static,
    W: Future<Output = Result<String, KeyError>> + Send + 'static,
{
    Arc::new(move |parts| Box::pin(read(parts)))
}

pub(super) fn in_time(reading: Reading) -> BoxFuture<'static, Result<LockName, KeyError>> {
    Box::pin(async move {
        match tokio::time::timeout(MAX_LOOK_UP, reading).await {
            Ok(name) => error::name(&name?),
            Err(_) => Err(KeyError::unavailable(format!("the key lookup took longer than {MAX_LOOK_UP:?}"))),
        }
    })
}
