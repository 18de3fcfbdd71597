use crate::{Shelf, catalogue, order};
use lock_core::{LockFactory, MemoryBackend};
use lock_inventory_demo::{
    domain::{OrderNumber, Outcome},
    payment::{Payments, Stall},
    shop::{Lease, Shop},
    store::Store,
};
use std::{collections::HashMap, sync::Arc, time::Duration};

#[tokio::test]
async fn a_buyer_whose_payment_outlives_the_lease_is_refused_and_gets_the_money_back() {
    let shelf = Shelf::of(&catalogue(1, 10)).await;
    let stall = Arc::new(Stall::default());
    let payments = Payments::new(42, HashMap::from([(OrderNumber::new(1), Arc::clone(&stall))]));
    let backend = MemoryBackend::new();
    let shop = async |lease| {
        let (locks, store) = (LockFactory::new(backend.clone()), Store::open(&shelf.path).await.unwrap());
        Arc::new(Shop::new("shop".into(), locks, lease, store, payments.clone()))
    };
    let (stalled, healthy) =
        (shop(Lease::Fixed(Duration::from_millis(100))).await, shop(Lease::Watched).await);

    let late = tokio::spawn({
        let stalled = Arc::clone(&stalled);
        async move { stalled.sell(&order(1)).await.unwrap().outcome }
    });
    stall.called().await;
    assert_eq!(healthy.sell(&order(2)).await.unwrap().outcome, Outcome::Accepted, "the lock passes on");
    stall.answer();
    assert_eq!(late.await.unwrap(), Outcome::Stale);

    let ledger = shelf.store.ledger().await.unwrap();
    assert_eq!(ledger.iter().map(|row| row.order).collect::<Vec<_>>(), [2], "the late order is not recorded");
    assert_eq!(payments.taken(), 250, "only the order that stands was paid");
    assert!(stalled.close().await.is_clean() && healthy.close().await.is_clean());
    assert_eq!(backend.held(), [], "no lock is left behind");
}

#[tokio::test]
async fn what_is_not_there_is_not_charged() {
    let shelf = Shelf::of(&catalogue(1, 1)).await;
    let payments = Payments::new(42, HashMap::new());
    let locks = LockFactory::new(MemoryBackend::new());
    let shop = Shop::new("shop".into(), locks, Lease::Watched, shelf.store.clone(), payments.clone());
    assert_eq!(shop.sell(&order(1)).await.unwrap().outcome, Outcome::Accepted);
    assert_eq!(shop.sell(&order(2)).await.unwrap().outcome, Outcome::SoldOut);
    assert_eq!(payments.taken(), 250);
}
