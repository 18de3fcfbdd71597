//! Processes that stop between two statements of one transaction, and leave its rows locked in PostgreSQL.

use crate::support::{Customer, World, until};
use distlock::FencingToken;
use lock_inventory_demo::store::Reserved;
use lock_testkit::{Direction, TcpProxy};
use std::time::Duration;

/// Waits until this many statements wait for a row that another transaction has locked.
async fn waiting(world: &World, statements: i64) {
    until("statements wait for a row", async || {
        let waiting =
            sqlx::query_scalar("select count(*) from pg_stat_activity where wait_event_type = 'Lock'");
        let waiting: i64 = waiting.fetch_one(world.store().pool()).await.unwrap();
        waiting >= statements
    })
    .await;
}

/// A suspended shop, or one whose machine is gone, keeps its transaction open and the product's row locked.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_transaction_does_not_stop_the_sale() {
    let world = World::postgres(&[("lamp", 5), ("radio", 5)]).await;
    let shop = world.shop("a");
    let stopped =
        world.store().fenced_read(&"lamp".parse().unwrap(), FencingToken::new(1)).await.unwrap().unwrap();
    let replies = Customer::new("ann").insist(&[shop.address], "lamp", "k").await;
    assert!(replies.last().unwrap().is_sold(), "{replies:#?}");
    assert!(stopped.0.commit().await.is_err(), "PostgreSQL has rolled it back");
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_transaction_does_not_stop_the_shutdown() {
    let world = World::postgres(&[("lamp", 5)]).await;
    let shop = world.shop("a");
    let _stopped =
        world.store().fenced_read(&"lamp".parse().unwrap(), FencingToken::new(1)).await.unwrap().unwrap();
    let (ann, address) = (Customer::new("ann"), shop.address);
    let order = tokio::spawn(async move { ann.order(address, "lamp", "k").await });
    waiting(&world, 1).await;
    let ended = tokio::task::spawn_blocking(|| shop.terminate());
    let ended = tokio::time::timeout(Duration::from_secs(100), ended).await;
    assert!(ended.is_ok(), "the shop waits for the row");
    drop(order);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_database_does_not_stop_the_shutdown() {
    let world = World::postgres(&[("lamp", 5)]).await;
    let proxy = TcpProxy::start(world.postgres.as_ref().unwrap().address());
    let shop = world.shop_behind("a", &proxy);
    let (ann, address) = (Customer::new("ann"), shop.address);
    assert!(ann.order(address, "lamp", "k").await.unwrap().is_sold());
    proxy.stall(Direction::Both);
    let order = tokio::spawn(async move { ann.order(address, "lamp", "l").await });
    until("the order fails", async || order.is_finished()).await;
    let ended = tokio::task::spawn_blocking(|| shop.terminate());
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    assert!(ended.is_ok(), "the shop waits for its connections");
}

/// A customer who repeats a reservation whose answer is slow is not told that the units went to somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn reservation_sent_twice_at_once_is_one() {
    let world = World::postgres(&[("lamp", 1)]).await;
    let (lamp, one) = ("lamp".parse().unwrap(), 1.try_into().unwrap());
    let id = world.key(&Customer::new("ann"), "r");
    // Both have read the reservations when the row becomes free.
    let slow = world.store().fenced_read(&lamp, FencingToken::new(1)).await.unwrap().unwrap();
    let reserve = || {
        let (store, id, lamp) = (world.store().clone(), id.clone(), "lamp".parse().unwrap());
        tokio::spawn(async move { store.reserve(&id, &lamp, one, Duration::from_secs(60)).await })
    };
    let (first, second) = (reserve(), reserve());
    waiting(&world, 2).await;
    slow.0.commit().await.unwrap();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let held = |reserved| matches!(reserved, Reserved::Until(_));
    assert!(held(first.unwrap()) && held(second.unwrap()));
}
