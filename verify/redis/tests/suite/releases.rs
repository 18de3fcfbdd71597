//! The usual release, which is two plain commands, has the result and the reply of the script.

use super::support::{calls, client, name};
use lock_core::backend::{Backend, BackendError, BackendExt as _, NotifyWaiters, ReleaseRequest, Released};
use lock_testkit::{RedisServer, contender::Contender};
use std::{sync::Arc, time::Duration};

const LEASE: Duration = Duration::from_secs(600);

async fn release(
    store: &Arc<dyn Backend>,
    a: &Contender,
    lock: &str,
    notify: NotifyWaiters,
) -> Result<Released, BackendError> {
    let request = ReleaseRequest { name: name(lock), lease: a.lease(), depth_left: 0, notify };
    Ok(store.release(request).await?.outcome)
}

#[tokio::test]
async fn release_of_a_held_lock_runs_no_script() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let a = Contender::new(&store);
    a.take(&name("x"), LEASE).await;
    let scripts = || calls(&server, "evalsha") + calls(&server, "eval");
    let before = scripts();
    let released = release(&store, &a, "x", NotifyWaiters::EvenIfGone).await.unwrap();
    assert_eq!(released, Released::Released { listeners: Some(0) });
    assert_eq!(scripts(), before);
}

#[tokio::test]
async fn two_commands_release_like_the_script() {
    let server = RedisServer::start();
    let store = client(&server.url()).await;
    let (a, b) = (Contender::new(&store), Contender::new(&store));
    let ways = [("one", NotifyWaiters::Yes), ("two", NotifyWaiters::EvenIfGone)];
    for (lock, _) in ways {
        a.take(&name(&format!("held:{lock}")), LEASE).await;
        a.take(&name(&format!("deep:{lock}")), LEASE).await;
        a.keep(&name(&format!("deep:{lock}")), 3, LEASE).await;
        b.take(&name(&format!("other's:{lock}")), LEASE).await;
        server.command(&["SET", &format!("string:{lock}"), "no lock"]);
        // A foreign hash with a field more keeps it.
        server.command(&["HSET", &format!("both:{lock}"), &a.lease().to_string(), "1", "apples", "3"]);
    }
    for state in ["held", "deep", "other's", "string", "both", "free"] {
        let [one, two] = ways.map(|(lock, notify)| (format!("{state}:{lock}"), notify));
        let replies = [
            release(&store, &a, &one.0, one.1).await.map_err(|error| (error.kind(), error.applied())),
            release(&store, &a, &two.0, two.1).await.map_err(|error| (error.kind(), error.applied())),
        ];
        assert_eq!(replies[0], replies[1], "{state}");
        let [left, right] = [one.0, two.0].map(|key| server.command(&["DUMP", &key]));
        assert_eq!(format!("{left:?}"), format!("{right:?}"), "{state}");
    }
}
