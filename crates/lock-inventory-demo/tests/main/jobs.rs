//! The jobs, and the routes of the operators.

use crate::support::{LostAnswers, PRICE, SKU, Stage, order, send, send_to, sku};
use distlock::cron::{MemoryLedger, Scheduler};
use lock_inventory_demo::jobs::{self, settle_open};
use std::{sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::sleep};

const ONE: &str = r#"{"quantity":1}"#;

#[tokio::test]
async fn open_intent_is_completed_if_the_units_are_there() {
    let stage = Stage::with_units(1).await;
    let dying = stage.shop_with(Arc::new(LostAnswers(stage.provider.clone())));
    let unknown = order(&dying, "ann", "1", ONE).await;
    assert_eq!((unknown.status, unknown.problem()), (503, "payment"));
    assert_eq!(stage.audit().await.pending, PRICE);
    settle_open(&stage.shop(), Duration::from_secs(3600)).await.unwrap();
    assert_eq!(stage.audit().await.orders, 0, "it is too young");
    settle_open(&stage.shop(), Duration::ZERO).await.unwrap();
    let audit = stage.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.pending), (1, PRICE, 0));
    assert_eq!(order(&stage.shop(), "ann", "1", ONE).await.status, 200);
}

#[tokio::test]
async fn open_intent_is_refunded_if_the_units_are_gone() {
    let stage = Stage::with_units(1).await;
    let dying = stage.shop_with(Arc::new(LostAnswers(stage.provider.clone())));
    assert_eq!(order(&dying, "ann", "1", ONE).await.status, 503);
    assert_eq!(order(&stage.shop(), "bob", "1", ONE).await.status, 201);
    settle_open(&stage.shop(), Duration::ZERO).await.unwrap();
    let audit = stage.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.refunded), (1, 2 * PRICE, PRICE));
    let refunded = order(&stage.shop(), "ann", "1", ONE).await;
    assert_eq!((refunded.status, refunded.problem()), (409, "refunded"));
}

#[tokio::test]
async fn repeated_run_restocks_once() {
    let stage = Stage::with_units(1).await;
    let two = 2.try_into().unwrap();
    for run in ["monday", "monday", "tuesday"] {
        stage.store.restock(&sku(), run, two).await.unwrap();
    }
    assert_eq!((stage.stock().await, stage.audit().await.supplied), (5, 5));
}

#[tokio::test]
async fn scheduler_expires_restocks_and_audits() {
    let stage = Stage::with_units(1).await;
    let shop = stage.shop();
    let expired = r#"{"quantity":1,"seconds":0}"#;
    assert_eq!(send(&shop, "POST", "/products/kettle/reservations", "ann", "r", expired).await.status, 201);
    assert_eq!(stage.stock().await, 0);
    let builder = Scheduler::builder(shop.locks.clone(), MemoryLedger::new());
    let cron = jobs::schedule(&shop, builder).unwrap();
    let plan = |user: &'static [(&'static str, &'static str)], schedule: &'static str| {
        let body = format!(r#"{{"schedule":"{schedule}","quantity":50}}"#);
        let routes = jobs::operators(&shop, &cron);
        async move { send_to(routes, "PUT", &format!("/products/{SKU}/restocking"), user, &body).await }
    };
    let operator = &[("x-forwarded-user", "eve")];
    assert_eq!(plan(&[], "0 6 * * *").await.status, 401);
    assert_eq!(plan(operator, "never").await.status, 400);
    assert_eq!(plan(operator, "0 6 * * *").await.status, 204);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = cron.clone();
    let running = tokio::spawn(async move { running.run_until(async { drop(stopped.await) }).await });
    for job in ["expire-reservations", "restock/kettle", "nightly-audit"] {
        cron.trigger(job).await.unwrap();
    }
    while stage.stock().await != 51 || cron.history("nightly-audit", 1).await.unwrap().is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(stage.audit().await.supplied, 51);
}
