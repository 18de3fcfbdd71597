//! Tests of every strategy under load. Unsafe strategies oversell, and the others sell out exactly.

use crate::support::{Client, Shelf, catalogue, config, shop};
use axum::http::StatusCode;
use lock_inventory_demo::{
    domain::Audit,
    fault::{Fault, FaultKind, Faults},
    locks::{Locks, LocksUrl},
    shop::Shop,
    strategy::{RedisStock, SETNX_TTL, Strategy},
};
use lock_testkit::RedisServer;
use std::sync::Arc;

const STOCK: u32 = 30;
const BUYERS: usize = 40;

/// Lets all buyers order one unit at the same time, round robin over the shops.
async fn rush(shelf: &Shelf, shops: &[Arc<Shop>]) -> Audit {
    let clients: Vec<_> = shops.iter().map(|shop| Arc::new(Client::of(shop))).collect();
    let asked = (0..BUYERS).map(|buyer| {
        let client = clients[buyer % clients.len()].clone();
        tokio::spawn(async move { client.order(&format!("buyer-{buyer}"), 1).await })
    });
    for reply in asked.collect::<Vec<_>>() {
        let reply = reply.await.unwrap();
        assert!(reply.status == StatusCode::CREATED || reply.reason() == "sold-out", "{reply:?}");
    }
    Audit::of(&shelf.store.books().await.unwrap(), None)
}

/// Opens two shops that share a stock, like two processes.
async fn two(shelf: &Shelf, strategy: Strategy) -> [Arc<Shop>; 2] {
    let locks = Locks::in_memory();
    let open = || shop(shelf, &locks, config(strategy), Faults::default());
    [open().await, open().await]
}

#[tokio::test]
async fn shops_without_a_common_lock_oversell() {
    for strategy in [Strategy::None, Strategy::Mutex] {
        for shelf in Shelf::both(&catalogue(1, STOCK)).await {
            let audit = rush(&shelf, &two(&shelf, strategy).await).await;
            assert!(audit.oversold > 0, "{strategy} on {}: {audit:?}", shelf.url);
        }
    }
}

#[tokio::test]
async fn one_shop_with_a_mutex_sells_out_exactly() {
    let shelf = Shelf::sqlite(&catalogue(1, STOCK)).await;
    let alone = crate::support::lone_shop(&shelf, Strategy::Mutex).await;
    assert_exact(&rush(&shelf, &[alone]).await, "mutex");
}

#[tokio::test]
async fn safe_strategies_sell_out_exactly() {
    for strategy in [
        Strategy::Lock,
        Strategy::LockWriteFence,
        Strategy::Fenced,
        Strategy::Conditional,
        Strategy::ForUpdate,
    ] {
        for shelf in Shelf::both(&catalogue(1, STOCK)).await {
            let audit = rush(&shelf, &two(&shelf, strategy).await).await;
            assert_exact(&audit, &format!("{strategy} on {}", shelf.url));
        }
    }
}

#[tokio::test]
async fn units_sell_out_exactly() {
    let shelf = Shelf::postgres(&catalogue(1, STOCK)).await;
    assert_exact(&rush(&shelf, &two(&shelf, Strategy::Units).await).await, "units");
}

#[tokio::test]
async fn script_in_redis_sells_out_exactly() {
    let redis = RedisServer::start();
    let shelf = Shelf::sqlite(&catalogue(1, STOCK)).await;
    let shops = on_redis(&redis, &shelf, Strategy::RedisLua, Faults::default()).await;
    assert_exact(&rush(&shelf, &shops).await, "redis-lua");
}

#[tokio::test]
async fn setnx_oversells_if_a_section_outlives_the_ttl() {
    let redis = RedisServer::start();
    let shelf = Shelf::sqlite(&catalogue(1, STOCK)).await;
    let (faults, ttl) = (Faults::default(), u64::try_from(SETNX_TTL.as_millis()).unwrap());
    faults.arm(Fault { kind: FaultKind::Stall, millis: 2 * ttl, once: false });
    let shops = on_redis(&redis, &shelf, Strategy::Setnx, faults).await;
    let audit = rush(&shelf, &shops).await;
    assert!(audit.oversold > 0, "{audit:?}");
}

async fn on_redis(redis: &RedisServer, shelf: &Shelf, strategy: Strategy, faults: Faults) -> [Arc<Shop>; 2] {
    let locks = Locks::connect(&redis.url().parse::<LocksUrl>().unwrap()).await.unwrap();
    let stock = RedisStock::connect(&redis.url(), "test:").await.unwrap();
    let open = || {
        Shop::open(config(strategy), shelf.store.clone(), locks.clone(), Some(stock.clone()), faults.clone())
    };
    [open().await.unwrap(), open().await.unwrap()]
}

fn assert_exact(audit: &Audit, what: &str) {
    assert_eq!((audit.sold, audit.oversold), (i64::from(STOCK), 0), "{what}: {audit:?}");
    assert_eq!(audit.breaches, [], "{what}");
}
