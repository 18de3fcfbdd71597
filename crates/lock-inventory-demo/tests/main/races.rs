//! Holders that are paused for longer than their lease, at each point at which another system takes part.

use crate::support::{Answer, PRICE, Point, Stage, Stop, order, send, take_lock_away};
use lock_inventory_demo::jobs::settle_open;
use std::time::Duration;
use tokio::task::JoinHandle;

const ONE: &str = r#"{"quantity":1}"#;

/// Lets the fence stop a holder that was paused, and repeats its request.
async fn repeat_after(stage: &Stage, paused: JoinHandle<Answer>, stop: &Stop) -> Answer {
    stop.resume();
    let stale = paused.await.unwrap();
    assert_eq!((stale.status, stale.problem()), (503, "stale-holder"));
    assert!(stale.headers.contains_key("retry-after"));
    order(&stage.shop(), "ann", "1", ONE).await
}

#[tokio::test]
async fn paused_holder_is_stopped_and_its_repeat_is_charged_once() {
    let stage = Stage::with_units(5).await;
    let (shop, stop) = stage.stopping(Point::AfterCharge);
    let paused = tokio::spawn(async move { order(&shop, "ann", "1", ONE).await });
    stop.arrived().await;
    let other = stage.shop();
    take_lock_away(&other).await;
    assert_eq!(order(&other, "bob", "1", ONE).await.status, 201);
    assert_eq!(repeat_after(&stage, paused, &stop).await.status, 201);
    let audit = stage.audit().await;
    assert_eq!((audit.orders, audit.charged, stage.stock().await), (2, 2 * PRICE, 3));
}

#[tokio::test]
async fn charged_order_is_refunded_if_its_units_went_to_others() {
    let stage = Stage::with_units(1).await;
    let (shop, stop) = stage.stopping(Point::AfterCharge);
    let paused = tokio::spawn(async move { order(&shop, "ann", "1", ONE).await });
    stop.arrived().await;
    take_lock_away(&stage.shop()).await;
    assert_eq!(order(&stage.shop(), "bob", "1", ONE).await.status, 201);
    let refunded = repeat_after(&stage, paused, &stop).await;
    assert_eq!((refunded.status, refunded.problem()), (409, "refunded"));
    let again = order(&stage.shop(), "ann", "1", ONE).await;
    assert_eq!((again.status, again.is_replayed()), (409, true));
    let audit = stage.audit().await;
    assert_eq!((audit.charged, audit.ordered, audit.refunded), (2 * PRICE, PRICE, PRICE));
}

/// The idempotency layer answers for an order that lost its key. The order goes on in the task of the product's lock.
#[tokio::test]
async fn order_that_lost_its_key_goes_on_and_its_repeat_receives_the_answer() {
    let stage = Stage::with_units(5).await;
    let (shop, stop) = stage.stopping(Point::AfterCharge);
    let paused = {
        let shop = shop.clone();
        tokio::spawn(async move { order(&shop, "ann", "1", ONE).await })
    };
    stop.arrived().await;
    let holds = shop.locks.holds();
    let key = holds.keys().find(|name| name.as_str().starts_with("idempotency:")).unwrap();
    shop.locks.force_release(key.as_str()).await.unwrap();
    let lost = paused.await.unwrap();
    assert_eq!((lost.status, lost.problem()), (503, "lost"));
    stop.resume();
    shop.tasks.drain(Duration::from_secs(60)).await.unwrap();
    let repeat = order(&stage.shop(), "ann", "1", ONE).await;
    assert_eq!((repeat.status, repeat.is_replayed()), (201, true));
    assert_eq!(stage.audit().await.charged, PRICE);
}

#[tokio::test]
async fn units_reserved_during_the_payment_are_not_sold() {
    let stage = Stage::with_units(1).await;
    let (shop, stop) = stage.stopping(Point::AfterCharge);
    let paused = tokio::spawn(async move { order(&shop, "ann", "1", ONE).await });
    stop.arrived().await;
    let hold = r#"{"quantity":1,"seconds":60}"#;
    let reserved = send(&stage.shop(), "POST", "/products/kettle/reservations", "bob", "1", hold).await;
    assert_eq!(reserved.status, 201);
    stop.resume();
    let refunded = paused.await.unwrap();
    assert_eq!((refunded.status, refunded.problem()), (409, "refunded"));
    assert_eq!(stage.audit().await.refunded, PRICE);
}

#[tokio::test]
async fn charge_that_comes_after_the_refund_is_refused() {
    let stage = Stage::with_units(1).await;
    let (shop, stop) = stage.stopping(Point::BeforeCharge);
    let paused = tokio::spawn(async move { order(&shop, "ann", "1", ONE).await });
    stop.arrived().await;
    let other = stage.shop();
    take_lock_away(&other).await;
    assert_eq!(order(&other, "bob", "1", ONE).await.status, 201);
    settle_open(&other, Duration::ZERO).await.unwrap();
    let refunded = repeat_after(&stage, paused, &stop).await;
    assert_eq!((refunded.status, refunded.problem()), (409, "refunded"));
    assert_eq!(stage.audit().await.charged, PRICE, "Bob's alone");
}

#[tokio::test]
async fn refund_that_comes_late_hits_no_order() {
    let stage = Stage::with_units(1).await;
    let (shop, stop) = stage.stopping(Point::BeforeRefund);
    let hold = r#"{"quantity":1,"seconds":60}"#;
    let path = "/products/kettle/reservations";
    assert_eq!(send(&shop, "POST", path, "ann", "r", hold).await.status, 201);
    // The reservation ends during the payment, so this holder decides to pay back, and is paused.
    let (paying, paid) = stage.stopping(Point::AfterCharge);
    let body = r#"{"quantity":1,"reservation":"r"}"#;
    let attempt = tokio::spawn(async move { order(&paying, "ann", "1", body).await });
    paid.arrived().await;
    take_lock_away(&shop).await;
    assert_eq!(send(&shop, "DELETE", "/reservations/r", "ann", "r", "").await.status, 204);
    let paused = tokio::spawn(async move { settle_open(&shop, Duration::ZERO).await });
    stop.arrived().await;
    // The units are back. The next holder must not sell them to this key.
    assert_eq!(stage.stock().await, 1);
    take_lock_away(&stage.shop()).await;
    settle_open(&stage.shop(), Duration::ZERO).await.unwrap();
    stop.resume();
    assert!(paused.await.unwrap().is_err(), "the fence stops it");
    paid.resume();
    assert_eq!(attempt.await.unwrap().problem(), "stale-holder");
    let refunded = order(&stage.shop(), "ann", "1", body).await;
    assert_eq!((refunded.status, refunded.problem()), (409, "refunded"));
    let audit = stage.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.refunded), (0, PRICE, PRICE));
}
