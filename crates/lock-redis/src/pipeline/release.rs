//! The release of a lock by two plain commands in place of a script.
//!
//! `HDEL` frees the lock, since the key is deleted with its last field, and `PUBLISH` then wakes the waiters. Together
//! they cost the server less than the script that does the same. They also shorten a hand-over: Redis replies first to
//! the client that was added to its list last, and a script adds the waiters before the client that called it. If Redis
//! reads both commands at once, `HDEL` adds that client before `PUBLISH` adds the waiters, whose messages leave first.
//!
//! The two are not atomic, and need not be. A waiter that is woken while another one holds the lock waits again. If the process ends between the
//! commands, waiters ask again as they do after any message that was lost.

use super::operation::lease;
use crate::{
    client::{Client, Command, Connection, Reply},
    cluster::Redirection,
    connection::Dialled,
    error::{RequestError, Unanswered, not_woken, unexpected_reply},
    keys,
    script::RELEASE,
    script_reply::{self, ScriptReply},
    shared::{Releases, Shared},
};
use futures_util::future::join;
use lock_core::{
    backend::{BackendErrorKind, NotifyWaiters, Operation},
    clock::UtcTime,
};
use std::{pin::pin, slice};
use tokio::time::Instant;

/// Frees the lock if the operation is its release, and wakes the waiters.
///
/// Returns `None` if the script must be used: for all other operations; if the backend is set to use it; while the server's clock is unknown, since the
/// replies have no time; and to say why the lease was not found.
pub(super) async fn release<C: Client>(
    shared: &Shared<C>,
    dialled: &Dialled<C::Connection>,
    operation: &Operation,
) -> Option<Result<ScriptReply, RequestError>> {
    let Operation::Release(request) = operation else { return None };
    let by_script = shared.rules.releases == Releases::ByScript;
    if by_script || request.depth_left > 0 || request.notify != NotifyWaiters::EvenIfGone {
        return None;
    }
    let now = dialled.trust.now()?;
    let free = Command::hdel(request.name.as_str().to_owned(), lease(request.lease));
    let wake = Command::wake(shared.pubsub, keys::channel(&request.name));
    // `join` polls them in this order, and the first poll sends.
    let (free, wake) = (pin!(dialled.call(free)), pin!(dialled.call(wake)));
    let reply = match join(free, wake).await {
        (Ok(Reply::Integer(1)), woken) => freed(dialled, now, woken),
        (Ok(Reply::Integer(0)), _) => return None,
        (Ok(_), _) => Err(out_of_step(dialled)),
        (Err(error), _) => match error.during(RELEASE.name) {
            // The key holds something else, so the lease is gone.
            error if error.kind() == BackendErrorKind::WrongType => return None,
            error => Err(error),
        },
    };
    shared.observe_errors(slice::from_ref(&reply));
    Some(reply)
}

/// Returns the reply of the script for a lock that was freed.
fn freed<T: Connection>(
    dialled: &Dialled<T>,
    now: UtcTime,
    woken: Result<Reply, Unanswered>,
) -> Result<ScriptReply, RequestError> {
    let released = |listeners| {
        let now = Reply::Integer(now.as_micros().cast_signed());
        dialled.read(RELEASE.name, Instant::now(), script_reply::in_full(now, "released", &[listeners]))
    };
    match woken {
        Ok(Reply::Integer(number)) if (0..=u32::MAX.into()).contains(&number) => released(number),
        Ok(_) => Err(out_of_step(dialled)),
        Err(error) => match error.during(RELEASE.name).redirection() {
            // The slot moved just now. The subscriptions move with it, and then the waiters ask.
            Some(Redirection::Moved { .. }) => released(-1),
            _ => Err(not_woken(RELEASE.name, &error)),
        },
    }
}

/// Ends a connection whose reply does not fit its command.
fn out_of_step<T: Connection>(dialled: &Dialled<T>) -> RequestError {
    dialled.trust.lose("unexpected reply");
    unexpected_reply(RELEASE.name)
}
