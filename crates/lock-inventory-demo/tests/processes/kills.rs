//! A shop is killed when the charge is there and the order is not.

use crate::support::{Customer, PRICE, Settings, Shop, World, assert_honest, until};
use std::net::SocketAddr;

/// Starts a shop that is killed as soon as this customer was charged for the last unit, and returns another shop.
async fn killed_after_the_charge(world: &World, customer: &Customer, settle_after_s: u64) -> Shop {
    let slow = Settings { payment_delay_ms: 5_000, ..Settings::default() };
    let mut first = world.shop_with("first", &slow);
    let order = {
        let (customer, address) = (customer.clone(), first.address);
        tokio::spawn(async move { customer.order(address, "lamp", "k").await })
    };
    world.charged(customer, "k").await;
    first.kill();
    let answer = order.await.unwrap();
    assert!(answer.is_err(), "the order was answered before the kill: {answer:?}");
    assert_eq!(world.intent(customer, "k").await.as_deref(), Some("open"));
    world.shop_with("second", &Settings { settle_after_s, ..Settings::default() })
}

/// Has another customer buy the last unit.
async fn sell_the_last_unit(shop: SocketAddr) {
    let replies = Customer::new("other").insist(&[shop], "lamp", "k").await;
    assert!(replies.last().unwrap().is_sold(), "{replies:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repetition_at_another_shop_completes_the_order() {
    let (world, ann) = (World::sqlite(&[("lamp", 1)]).await, Customer::new("ann"));
    let second = killed_after_the_charge(&world, &ann, 3_600).await;
    let replies = ann.insist(&[second.address], "lamp", "k").await;
    assert!(replies.last().unwrap().is_sold(), "{replies:#?}");
    assert_honest(&replies);
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.ordered), (1, PRICE, PRICE));
}

#[tokio::test(flavor = "multi_thread")]
async fn repetition_is_refunded_if_the_last_unit_was_sold() {
    let (world, ann) = (World::sqlite(&[("lamp", 1)]).await, Customer::new("ann"));
    let second = killed_after_the_charge(&world, &ann, 3_600).await;
    sell_the_last_unit(second.address).await;
    let replies = ann.insist(&[second.address], "lamp", "k").await;
    assert_eq!(replies.last().unwrap().problem(), "refunded", "{replies:#?}");
    assert_honest(&replies);
    assert_eq!(world.payment(&ann, "k").await.as_deref(), Some("refunded"));
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.refunded), (1, 2 * PRICE, PRICE));
    let again = ann.insist(&[second.address], "lamp", "k").await;
    assert_eq!(again.last().unwrap().problem(), "refunded", "the answer stays: {again:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn job_settles_the_order_of_a_customer_who_stays_away() {
    job_settles_the_order(World::sqlite(&[("lamp", 1)]).await).await;
}

/// Locks and jobs are where the shop's data is.
#[tokio::test(flavor = "multi_thread")]
async fn job_settles_the_order_without_redis() {
    job_settles_the_order(World::postgres(&[("lamp", 1)]).await.without_redis()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_settles_the_order_without_a_server() {
    job_settles_the_order(World::sqlite(&[("lamp", 1)]).await.without_redis()).await;
}

async fn job_settles_the_order(world: World) {
    let ann = Customer::new("ann");
    let second = killed_after_the_charge(&world, &ann, 1).await;
    let audit = world.audit().await;
    assert_eq!(audit.charged, PRICE, "once: {audit:#?}");
    // A customer who returns after all learns how it ended.
    let replies = ann.insist(&[second.address], "lamp", "k").await;
    let last = replies.last().unwrap();
    match world.intent(&ann, "k").await.as_deref() {
        Some("ordered") => assert!(last.is_sold() && audit.ordered == PRICE, "{replies:#?}"),
        Some("refunded") => assert!(last.problem() == "refunded" && audit.refunded == PRICE, "{replies:#?}"),
        other => panic!("{other:?}"),
    }
    assert_honest(&replies);
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_refunds_a_customer_who_stays_away_if_the_last_unit_was_sold() {
    let (world, ann) = (World::sqlite(&[("lamp", 1)]).await, Customer::new("ann"));
    let second = killed_after_the_charge(&world, &ann, 3_600).await;
    sell_the_last_unit(second.address).await;
    let _third = world.shop_with("third", &Settings { settle_after_s: 1, ..Settings::default() });
    until("refund", async || world.intent(&ann, "k").await.as_deref() == Some("refunded")).await;
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.refunded), (1, 2 * PRICE, PRICE));
}
