//! The lists of held locks: those of this process, and those in the store.

use crate::support::{World, millis, name, secs};
use lock_core::{
    LockErrorKind, LockFactory, LockName, MemoryBackend, Store,
    backend::BackendErrorKind,
    inspect::{ListLimits, Listing},
};
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn only_holds_of_this_process_are_listed() {
    let world = World::new();
    assert!(world.locks.holds().is_empty());
    let outer = world.locks.named("b").unwrap().acquire().await.unwrap();
    let inner = outer.reenter().await.unwrap();
    tokio::time::sleep(secs(5)).await;
    let other = world.locks.named("a").unwrap().acquire().await.unwrap();
    let _foreign = world.another_process().named("c").unwrap().acquire().await.unwrap();
    let _waiter = tokio::spawn(world.locks.named("c").unwrap().acquire());
    tokio::time::sleep(millis(1)).await;

    let holds = world.locks.holds();
    assert!(
        holds.keys().map(LockName::as_str).eq(["a", "b"]),
        "without the lock that this process waits for"
    );
    let hold = &holds[&name("b")];
    assert_eq!((hold.token, hold.depth, hold.owner), (outer.fencing_token(), 2, *outer.owner()));
    assert_eq!(hold.held_for, secs(5) + millis(1));
    assert_eq!(hold.remaining, outer.remaining());
    drop((outer, inner));
    other.release().await.unwrap();
    world.settle().await;
    assert!(world.locks.holds().is_empty());
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.names.iter().map(|name| name.as_str()).collect()
}

#[tokio::test]
async fn list_returns_the_held_names_with_a_prefix() {
    let store = MemoryBackend::new();
    let (locks, other) = (LockFactory::new(store.clone()), LockFactory::new(store.clone()));
    let shop = LockFactory::builder(store.clone()).prefix("shop").build().unwrap();
    let mut guards = Vec::new();
    for name in ["stock:2", "stock:1", "stocks", "order:1"] {
        guards.push(other.named(name).unwrap().acquire().await.unwrap());
    }
    guards.push(shop.named("stock:7").unwrap().acquire().await.unwrap());
    locks.named("stock:3").unwrap().acquire().await.unwrap().release().await.unwrap();

    let all = ListLimits::new();
    assert_eq!(names(&locks.list("stock:", all).await.unwrap()), ["stock:1", "stock:2"]);
    let listing = locks.list("", all).await.unwrap();
    assert_eq!(names(&listing), ["order:1", "shop:stock:7", "stock:1", "stock:2", "stocks"]);
    assert!(!listing.truncated);
    assert_eq!(names(&shop.list("", all).await.unwrap()), ["stock:7"]);
    assert_eq!(names(&shop.list("stock:", all).await.unwrap()), ["stock:7"]);

    let most = locks.list("stock", ListLimits::new().max_names(3)).await.unwrap();
    assert!(!most.truncated && most.names.len() == 3, "{most:?}");
    let cut = locks.list("stock", ListLimits::new().max_names(2)).await.unwrap();
    assert!(cut.truncated && cut.names.len() == 2, "{cut:?}");
    let none = locks.list("stock", ListLimits::new().max_names(0)).await.unwrap();
    assert!(none.truncated && none.names.is_empty(), "{none:?}");
}

#[tokio::test]
async fn store_without_a_directory_cannot_list() {
    let locks = LockFactory::new(Store::new(Arc::new(MemoryBackend::new())));
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    guard.note("42 %");
    let error = locks.list("", ListLimits::new()).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert_eq!(error.backend_error().unwrap().kind(), BackendErrorKind::Unsupported);
    assert!(!error.is_retryable());
    let inspection = locks.inspect("x").await.unwrap();
    assert!(inspection.stored.is_some() && inspection.process.is_none());
    assert!(locks.holds().contains_key(&name("x")));
}
