//! Reservations, and the orders of their units.

use crate::support::{Answer, Stage, order, send};
use lock_inventory_demo::Shop;

const HOLD: &str = r#"{"quantity":1,"seconds":60}"#;

async fn reserve(shop: &Shop, customer: &str, key: &str, body: &str) -> Answer {
    send(shop, "POST", "/products/kettle/reservations", customer, key, body).await
}

#[tokio::test]
async fn repeated_reservation_takes_its_units_once() {
    let stage = Stage::with_units(2).await;
    let shop = stage.shop();
    for _ in 0..2 {
        let reserved = reserve(&shop, "ann", "r", HOLD).await;
        assert_eq!((reserved.status, &reserved.body["id"]), (201, &"r".into()));
    }
    assert_eq!(stage.stock().await, 1);
    assert_eq!(reserve(&shop, "ann", "r", r#"{"quantity":2,"seconds":60}"#).await.status, 422);
    assert_eq!(reserve(&shop, "bob", "r", r#"{"quantity":2,"seconds":60}"#).await.problem(), "sold-out");
    for _ in 0..2 {
        assert_eq!(send(&shop, "DELETE", "/reservations/r", "ann", "", "").await.status, 204);
    }
    assert_eq!(stage.stock().await, 2);
    assert_eq!(reserve(&shop, "ann", "r", HOLD).await.status, 422, "it has ended");
    stage.audit().await;
}

#[tokio::test]
async fn only_their_customer_buys_reserved_units() {
    let stage = Stage::with_units(1).await;
    let shop = stage.shop();
    assert_eq!(reserve(&shop, "ann", "r", HOLD).await.status, 201);
    let body = r#"{"quantity":1,"reservation":"r"}"#;
    assert_eq!(order(&shop, "bob", "1", body).await.problem(), "sold-out");
    assert_eq!(order(&shop, "bob", "1", r#"{"quantity":1}"#).await.problem(), "sold-out");
    assert_eq!(order(&shop, "ann", "1", r#"{"quantity":2,"reservation":"r"}"#).await.problem(), "sold-out");
    assert_eq!(order(&shop, "ann", "1", body).await.status, 201);
    assert_eq!(order(&shop, "ann", "2", body).await.problem(), "sold-out", "one order for each reservation");
    assert_eq!(send(&shop, "DELETE", "/reservations/r", "ann", "", "").await.status, 204);
    let audit = stage.audit().await;
    assert_eq!((audit.orders, stage.stock().await), (1, 0));
}

#[tokio::test]
async fn expired_reservation_is_not_sold() {
    let stage = Stage::with_units(1).await;
    let shop = stage.shop();
    assert_eq!(reserve(&shop, "ann", "r", r#"{"quantity":1,"seconds":0}"#).await.status, 201);
    assert_eq!(order(&shop, "ann", "1", r#"{"quantity":1,"reservation":"r"}"#).await.problem(), "sold-out");
    stage.audit().await;
}
