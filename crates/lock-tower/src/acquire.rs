//! The future that acquires the lock of a request, or its set of locks.

use crate::handle::RequestGuard;
use futures_util::future::BoxFuture;
use lock_core::{LockError, future::AcquireFuture, set::LockSetGuard};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

pub(crate) enum Acquire {
    One(AcquireFuture),
    Set(BoxFuture<'static, Result<LockSetGuard, LockError>>),
}

impl Future for Acquire {
    type Output = Result<RequestGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::One(acquire) => Pin::new(acquire).poll(cx).map_ok(RequestGuard::One),
            Self::Set(acquire) => acquire.as_mut().poll(cx).map_ok(RequestGuard::Set),
        }
    }
}
