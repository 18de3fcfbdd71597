//! A shop is suspended between the charge and the write, while its lock goes to another shop.

use crate::support::{Customer, PRICE, Reply, Settings, World, assert_honest, until};
use distlock::{LockFactory, fred::Redis, ledger::LedgerConnector};
use std::time::Duration;

/// Suspends a shop after its charge and takes the lock from it. Another customer buys the last unit, and the job refunds the
/// first one. Returns the answer of the shop after it was resumed.
async fn late_write(lease_ms: u64, take_lock: impl FnOnce(&World)) -> Reply {
    let world = World::sqlite(&[("lamp", 1)]).await;
    let slow =
        world.shop_with("slow", &Settings { lease_ms, payment_delay_ms: 5_000, ..Settings::default() });
    let other = world.shop("other");
    let ann = Customer::new("ann");
    let first = {
        let (ann, address) = (ann.clone(), slow.address);
        tokio::spawn(async move { ann.order(address, "lamp", "k").await })
    };
    world.charged(&ann, "k").await;
    world.pause(&slow).await;
    take_lock(&world);
    let sold = Customer::new("bob").insist(&[other.address], "lamp", "k").await;
    assert!(sold.last().unwrap().is_sold(), "{sold:#?}");
    let _settling = world.shop_with("settling", &Settings { settle_after_s: 1, ..Settings::default() });
    until("refund", async || world.intent(&ann, "k").await.as_deref() == Some("refunded")).await;
    // Now the stock and the record of the key would allow the late write.
    world.restock("lamp", 1).await;

    slow.resume();
    let late = first.await.unwrap().unwrap();
    assert!(!late.is_sold(), "{late:?}");
    let mut replies = vec![late.clone()];
    replies.extend(ann.insist(&[slow.address], "lamp", "k").await);
    assert_eq!(replies.last().unwrap().problem(), "refunded", "{replies:#?}");
    assert_honest(&replies);
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.refunded), (1, 2 * PRICE, PRICE));
    late
}

#[tokio::test(flavor = "multi_thread")]
async fn shop_that_outlives_its_lease_writes_nothing() {
    late_write(1_000, |_| {}).await;
}

/// The lease is long, so that the shop does not notice the loss: only the fence refuses its write.
#[tokio::test(flavor = "multi_thread")]
async fn fence_refuses_the_write_if_redis_lost_its_data() {
    let late = late_write(60_000, |world| world.redis.restart_empty()).await;
    assert_eq!(late.problem(), "stale-holder", "{late:?}");
}

/// A shop is suspended while its order waits for the product. Redis loses its data, and the repeat is told that the product
/// is sold out, and nothing was charged. The first attempt then has the newest token of the product, but not the key.
#[tokio::test(flavor = "multi_thread")]
async fn attempt_whose_key_was_lost_is_not_charged_after_its_repeat_was_refused() {
    let world = World::sqlite(&[("lamp", 1)]).await;
    let (lamp, ann) = ("lamp".parse().unwrap(), Customer::new("ann"));
    let (bob, hour) = (world.key(&Customer::new("bob"), "r"), Duration::from_secs(3_600));
    world.store().reserve(&bob, &lamp, 1.try_into().unwrap(), hour).await.unwrap();
    let slow = world.shop_with("slow", &Settings { lease_ms: 60_000, ..Settings::default() });
    let other = world.shop("other");
    let (redis, _) = Redis.connect_with_ledger_lazy(&world.redis.url()).unwrap();
    let locks = LockFactory::builder(redis).prefix("shop").build().unwrap();
    let holder = locks.named("product:lamp").unwrap().acquire().await.unwrap();
    let first = {
        let (ann, address) = (ann.clone(), slow.address);
        tokio::spawn(async move { ann.order(address, "lamp", "k").await })
    };
    until("the first attempt waits for the product", async || {
        let channels = world.redis.command(&["PUBSUB", "CHANNELS"]);
        channels.list().iter().any(|channel| channel.text().contains("product:lamp"))
    })
    .await;
    world.pause(&slow).await;
    world.redis.command(&["FLUSHALL"]);
    let refused = ann.insist(&[other.address], "lamp", "k").await;
    assert_eq!(refused.last().unwrap().problem(), "sold-out", "{refused:#?}");
    world.restock("lamp", 1).await;
    slow.resume();
    let late = first.await.unwrap().unwrap();
    assert_eq!(late.status, 503, "{late:?}");
    assert_eq!(world.payment(&ann, "k").await, None, "{}", slow.log());
    drop(holder);
    world.audit().await;
}
