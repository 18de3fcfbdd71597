//! One order at a time.

use crate::support::{PRICE, SKU, Stage, order, send, send_to, sku, take_lock_away};
use lock_inventory_demo::{Terms, orders::lock_of, router};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn repeated_order_is_answered_from_the_record() {
    let stage = Stage::with_units(5).await;
    let first = order(&stage.shop(), "ann", "1", r#"{"quantity":1}"#).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.body["order"], "ann/1");
    let again = order(&stage.shop(), "ann", "1", r#"{"quantity":1}"#).await;
    assert_eq!((again.status, again.is_replayed(), again.body), (201, true, first.body));
    assert_eq!(order(&stage.shop(), "bob", "1", r#"{"quantity":1}"#).await.status, 201, "a key of his own");
    let audit = stage.audit().await;
    assert_eq!((audit.orders, audit.charged), (2, 2 * PRICE));
}

#[tokio::test]
async fn key_of_another_order_is_refused() {
    let stage = Stage::with_units(5).await;
    let shop = stage.shop();
    assert_eq!(order(&shop, "ann", "1", r#"{"quantity":1}"#).await.status, 201);
    assert_eq!(order(&shop, "ann", "1", r#"{"quantity":2}"#).await.status, 422);
    // The intent outlives the record.
    sqlx::query("delete from idempotency_records").execute(stage.store.pool()).await.unwrap();
    let other = order(&shop, "ann", "1", r#"{"quantity":2}"#).await;
    assert_eq!((other.status, other.problem()), (422, "key-reused"));
    let same = order(&shop, "ann", "1", r#"{"quantity":1}"#).await;
    assert_eq!((same.status, &same.body["number"]), (200, &json!(1)));
    assert_eq!(stage.audit().await.orders, 1);
}

#[tokio::test]
async fn sold_out_order_is_not_charged_and_frees_its_key() {
    let stage = Stage::with_units(1).await;
    let shop = stage.shop();
    let refused = order(&shop, "ann", "1", r#"{"quantity":2}"#).await;
    assert_eq!((refused.status, refused.problem()), (409, "sold-out"));
    assert_eq!(stage.audit().await.charged, 0);
    assert_eq!(order(&shop, "ann", "1", r#"{"quantity":1}"#).await.status, 201);
}

#[tokio::test]
async fn declined_order_takes_no_units() {
    let stage = Stage::with_units(5).await;
    let shop = stage.shop();
    for replayed in [false, true] {
        let declined = order(&shop, "ann", "1", r#"{"quantity":2}"#).await;
        assert_eq!((declined.status, declined.is_replayed()), (402, replayed));
    }
    assert_eq!((stage.stock().await, stage.audit().await.charged), (5, 0));
}

#[tokio::test]
async fn requests_are_checked_before_they_wait_for_the_lock() {
    let stage = Stage::with_units(5).await;
    let mut shop = stage.shop();
    shop.terms = Terms { wait: Duration::from_millis(50), ..shop.terms };
    let guard = lock_of(&stage.shop(), &sku()).unwrap().acquire().await.unwrap();
    let path = "/products/kettle/orders";
    let one = r#"{"quantity":1}"#;
    for (path, customer, key, body, status) in [
        (path, "", "1", one, 400),
        (path, "ann", "a/b", one, 400),
        (path, "ann", "1", r#"{"quantity":0}"#, 422),
        (path, "ann", "1", r#"{"quantity":1,"price":1}"#, 422),
        ("/products/teapot/orders", "ann", "1", one, 404),
    ] {
        let answer = send(&shop, "POST", path, customer, key, body).await;
        assert_eq!(answer.status, status, "{customer} {key} {body}: {answer:?}");
    }
    let nobody = send_to(router(&shop), "POST", path, &[("idempotency-key", "1")], one).await;
    assert_eq!((nobody.status, nobody.problem()), (401, "no-customer"));
    assert_eq!(order(&shop, "ann", "1", one).await.status, 503, "it waits for the lock of {SKU}");
    take_lock_away(&shop).await;
    drop(guard);
}

#[tokio::test]
async fn header_that_is_sent_twice_names_nobody() {
    let stage = Stage::with_units(5).await;
    let (shop, path, one) = (stage.shop(), "/products/kettle/orders", r#"{"quantity":1}"#);
    let twice = [("x-customer", "ann"), ("x-customer", "bob"), ("idempotency-key", "1")];
    let nobody = send_to(router(&shop), "POST", path, &twice, one).await;
    assert_eq!((nobody.status, nobody.problem()), (401, "no-customer"));
    let (path, hold) = ("/products/kettle/reservations", r#"{"quantity":1,"seconds":60}"#);
    let twice = [("x-customer", "ann"), ("idempotency-key", "1"), ("idempotency-key", "2")];
    assert_eq!(send_to(router(&shop), "POST", path, &twice, hold).await.status, 400);
    assert_eq!(stage.stock().await, 5);
}

#[tokio::test]
async fn only_a_pair_of_quotes_is_removed_from_a_key() {
    let stage = Stage::with_units(5).await;
    let one = r#"{"quantity":1}"#;
    assert_eq!(order(&stage.shop(), "ann", "\"1\"", one).await.status, 201);
    assert!(order(&stage.shop(), "ann", "1", one).await.is_replayed());
    // The records know it as another key.
    assert_eq!(order(&stage.shop(), "ann", "1\"", one).await.status, 400);
}

#[tokio::test]
async fn address_in_another_spelling_takes_the_same_lock() {
    let stage = Stage::with_units(5).await;
    let mut shop = stage.shop();
    shop.terms = Terms { wait: Duration::from_millis(50), ..shop.terms };
    let _guard = lock_of(&stage.shop(), &sku()).unwrap().acquire().await.unwrap();
    let answer = send(&shop, "POST", "/products/%6Bettle/orders", "ann", "1", r#"{"quantity":1}"#).await;
    assert_eq!(answer.status, 503, "{answer:?}");
}
