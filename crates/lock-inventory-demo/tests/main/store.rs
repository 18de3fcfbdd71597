use crate::{Shelf, catalogue, order, sku};
use lock_core::FencingToken;
use lock_inventory_demo::{
    domain::{Quantity, StockRow},
    store::{Read, Written},
};

const OLD: FencingToken = FencingToken::new(7);
const NEW: FencingToken = FencingToken::new(8);

fn fresh(stock: u32) -> Read {
    Read::Fresh(Quantity::new(stock))
}

fn left(stock: i64) -> Vec<StockRow> {
    vec![StockRow { sku: "P-0".into(), stock }]
}

#[tokio::test]
async fn a_read_by_an_older_holder_is_refused() {
    let store = Shelf::of(&catalogue(1, 10)).await.store;
    assert_eq!(store.fenced_read(&sku(0), NEW).await.unwrap(), fresh(10));
    assert_eq!(store.fenced_read(&sku(0), OLD).await.unwrap(), Read::Stale);
    assert_eq!(store.fenced_read(&sku(0), NEW).await.unwrap(), fresh(10), "the same holder may read again");
    assert_eq!(store.fence(&sku(0)).await.unwrap(), NEW.as_i64());
}

#[tokio::test]
async fn a_stale_write_between_the_new_read_and_the_new_write_is_refused() {
    let shelf = Shelf::of(&catalogue(1, 10)).await;
    let store = &shelf.store;
    assert_eq!(store.fenced_read(&sku(0), OLD).await.unwrap(), fresh(10));
    assert_eq!(store.fenced_read(&sku(0), NEW).await.unwrap(), fresh(10));

    let late = store.fenced_write(&order(1), Quantity::new(9), "late", OLD).await.unwrap();
    assert_eq!(late, Written::Stale);
    assert_eq!(store.stock().await.unwrap(), left(10));
    assert_eq!(store.ledger().await.unwrap(), [], "a refused write leaves no order");

    let current = store.fenced_write(&order(2), Quantity::new(9), "current", NEW).await.unwrap();
    assert_eq!(current, Written::Recorded);
    assert_eq!(store.stock().await.unwrap(), left(9));
    assert_eq!(store.ledger().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_write_before_the_new_holder_reads_is_seen_by_it() {
    let store = Shelf::of(&catalogue(1, 10)).await.store;
    assert_eq!(store.fenced_read(&sku(0), OLD).await.unwrap(), fresh(10));
    let written = store.fenced_write(&order(1), Quantity::new(9), "old", OLD).await.unwrap();
    assert_eq!(written, Written::Recorded);
    assert_eq!(store.fenced_read(&sku(0), NEW).await.unwrap(), fresh(9));
}

#[tokio::test]
async fn a_write_whose_read_never_happened_is_refused() {
    let store = Shelf::of(&catalogue(1, 10)).await.store;
    let written = store.fenced_write(&order(1), Quantity::new(9), "hasty", NEW).await.unwrap();
    assert_eq!(written, Written::Stale);
}

#[tokio::test]
async fn an_order_that_is_in_the_ledger_is_not_written_again() {
    let store = Shelf::of(&catalogue(1, 10)).await.store;
    store.fenced_read(&sku(0), NEW).await.unwrap();
    store.fenced_write(&order(1), Quantity::new(9), "shop", NEW).await.unwrap();
    let again = store.fenced_write(&order(1), Quantity::new(8), "shop", NEW).await.unwrap_err();
    assert_eq!(again.to_string(), "could not write the order");
    assert_eq!(store.stock().await.unwrap(), left(9), "the stock of the failed transaction is rolled back");
}

#[tokio::test]
async fn a_write_without_a_fence_overwrites_what_it_did_not_see() {
    let store = Shelf::of(&catalogue(1, 10)).await.store;
    let (mine, theirs) = (store.read(&sku(0)).await.unwrap(), store.read(&sku(0)).await.unwrap());
    store.write(&order(1), mine.take(Quantity::new(1)).unwrap(), "mine").await.unwrap();
    store.write(&order(2), theirs.take(Quantity::new(1)).unwrap(), "theirs").await.unwrap();
    assert_eq!(store.stock().await.unwrap(), left(9), "two orders, one piece less");
    assert_eq!(store.ledger().await.unwrap().len(), 2);
}
