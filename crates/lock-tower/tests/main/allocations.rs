//! Requests that need no lock do not allocate. `cargo bench -p lock-tower` measures their time.

use crate::support::World;
use allocation_counter::measure;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body_util::Full;
use lock_tower::{DetachedTasks, KeyTemplate};
use std::{convert::Infallible, future::ready};
use tower::{Layer, Service, service_fn};

#[tokio::test(start_paused = true)]
async fn unlocked_requests_do_not_allocate() {
    let world = World::new();
    // A body that borrows static text.
    let bare = service_fn(|_: Request<()>| {
        ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hi")))))
    });
    let layer = || world.layer().key(KeyTemplate::of("k").header("x")).methods([Method::POST]);
    let mut filtered = layer().filter(|request| request.method != Method::PUT).layer(bare);
    let mut by_method = layer().layer(bare);
    let mut detached = layer().detach(&DetachedTasks::new()).layer(bare);
    fn calls<S: Service<Request<()>>>(service: &mut S) -> u64 {
        measure(|| {
            let answer = service.call(Request::new(())).now_or_never();
            assert!(answer.is_some_and(|answer| answer.is_ok()), "the response is ready immediately");
        })
        .count_total
    }
    let locked = measure(|| {
        let request = Request::post("/").header("x", "1").body(()).unwrap();
        assert!(by_method.call(request).now_or_never().is_some_and(|answer| answer.is_ok()));
    });
    assert!(locked.count_total > 0, "allocations are counted");
    assert_eq!((calls(&mut by_method), calls(&mut filtered), calls(&mut detached)), (0, 0, 0));
}
