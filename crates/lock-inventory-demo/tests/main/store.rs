//! Tests of the store's statements, on SQLite and PostgreSQL.

use crate::support::{Shelf, catalogue, empty_postgres, entry, order, pieces, sku};
use futures_util::future::join_all;
use lock_core::{FencingToken, clock::UtcTime};
use lock_inventory_demo::{
    domain::{Quantity, Reservation, ReservationState, Stale},
    store::{Changed, DatabaseUrl, Read, Reserved, Store, StoreError, Written},
};

const OLD: FencingToken = FencingToken::new(7);
const NEW: FencingToken = FencingToken::new(8);
const STALE: Stale = Stale { mine: OLD, newer: NEW };

fn fresh(stock: u32) -> Read {
    Read::Fresh(Quantity::new(stock))
}

fn reservation(id: &str, quantity: u32) -> Reservation {
    Reservation {
        id: id.into(),
        sku: sku(0),
        quantity: pieces(quantity),
        cents: 250,
        expires_at: UtcTime::from_millis(1_000),
        state: ReservationState::Held,
    }
}

#[tokio::test]
async fn read_by_an_older_holder_is_refused() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let store = &shelf.store;
        assert_eq!(store.fenced_read(&sku(0), NEW).await.unwrap(), fresh(10));
        assert_eq!(store.fenced_read(&sku(0), OLD).await.unwrap(), Read::Stale(STALE));
        assert_eq!(
            store.fenced_read(&sku(0), NEW).await.unwrap(),
            fresh(10),
            "the same holder can read again"
        );
        assert_eq!(store.fence(&sku(0)).await.unwrap(), NEW);
    }
}

#[tokio::test]
async fn stale_write_between_the_new_read_and_write_is_refused() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let store = &shelf.store;
        assert_eq!(store.fenced_read(&sku(0), OLD).await.unwrap(), fresh(10));
        assert_eq!(store.fenced_read(&sku(0), NEW).await.unwrap(), fresh(10));

        let (late, current) = (order("late"), order("current"));
        let written = store.fenced_write(entry(&late, Some(7)), pieces(9), OLD).await.unwrap();
        assert_eq!(written, Written::Stale(STALE));
        assert_eq!(
            (shelf.stock().await, shelf.keys().await.len()),
            (10, 0),
            "a refused write must leave no effects"
        );

        let written = store.fenced_write(entry(&current, Some(8)), pieces(9), NEW).await.unwrap();
        assert_eq!(written, Written::Recorded);
        assert_eq!((shelf.stock().await, shelf.keys().await), (9, vec!["current".to_owned()]));
    }
}

#[tokio::test]
async fn fence_on_writes_only_admits_a_stale_write_after_a_read() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let store = &shelf.store;
        let (late, current) = (order("late"), order("current"));
        assert_eq!(store.read(&sku(0)).await.unwrap(), pieces(10), "unexpected stock for the old holder");
        assert_eq!(store.read(&sku(0)).await.unwrap(), pieces(10), "unexpected stock for the new holder");
        let first = store.write_fenced_only(entry(&late, Some(7)), pieces(9), OLD).await.unwrap();
        let second = store.write_fenced_only(entry(&current, Some(8)), pieces(9), NEW).await.unwrap();
        assert_eq!((first, second), (Written::Recorded, Written::Recorded));
        assert_eq!(
            (shelf.stock().await, shelf.keys().await.len()),
            (9, 2),
            "expected two orders and one unit less"
        );

        let after = order("after");
        let third = store.write_fenced_only(entry(&after, Some(7)), pieces(8), OLD).await.unwrap();
        assert_eq!(third, Written::Stale(STALE), "a stale write after the new write must be refused");
    }
}

#[tokio::test]
async fn unfenced_write_overwrites_changes_since_its_read() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let (mine, theirs) = (order("mine"), order("theirs"));
        shelf.store.write(entry(&mine, None), pieces(9)).await.unwrap();
        shelf.store.write(entry(&theirs, None), pieces(9)).await.unwrap();
        assert_eq!(
            (shelf.stock().await, shelf.keys().await.len()),
            (9, 2),
            "expected two orders and one unit less"
        );
    }
}

#[tokio::test]
async fn write_without_a_read_is_refused() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let hasty = order("hasty");
        let written = shelf.store.fenced_write(entry(&hasty, Some(8)), pieces(9), NEW).await.unwrap();
        assert!(matches!(written, Written::Stale(Stale { mine: NEW, .. })), "{written:?}");
    }
}

#[tokio::test]
async fn duplicate_key_rolls_back_the_stock_change() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let store = &shelf.store;
        let once = order("once");
        store.fenced_read(&sku(0), NEW).await.unwrap();
        store.fenced_write(entry(&once, Some(8)), pieces(9), NEW).await.unwrap();
        let repeated = store.fenced_write(entry(&once, Some(8)), pieces(8), NEW).await.unwrap();
        assert_eq!((repeated, shelf.stock().await), (Written::KeyTaken, 9));
        let receipt = store.receipt(&once.key).await.unwrap().unwrap();
        assert_eq!((receipt.quantity, receipt.token), (pieces(1), Some(NEW)));
        assert_eq!(store.receipt(&"other".parse().unwrap()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn held_row_blocks_other_reads_for_update() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let first = shelf.store.hold_row(&sku(0)).await.unwrap();
        assert_eq!(first.stock, pieces(10));
        let (second, store) = (sku(0), shelf.store.clone());
        let second = tokio::spawn(async move { store.hold_row(&second).await.unwrap().stock });
        tokio::task::yield_now().await;
        let one = order("one");
        assert_eq!(first.write(entry(&one, None), pieces(9)).await.unwrap(), Written::Recorded);
        assert_eq!(second.await.unwrap(), pieces(9), "the second reader must wait for the write");
    }
}

#[tokio::test]
async fn units_are_taken_concurrently_and_never_twice() {
    let shelf = Shelf::postgres(&catalogue(1, 3)).await;
    let mut two = order("two");
    two.quantity = pieces(2);
    let (one, more) = (order("one"), order("more"));
    let first = shelf.store.hold_units(&two).await.unwrap().unwrap();
    let second = shelf.store.hold_units(&one).await.unwrap().unwrap();
    assert!(
        shelf.store.hold_units(&more).await.unwrap().is_none(),
        "all three units are held, and the call must not wait"
    );
    assert_eq!(second.write(entry(&one, None)).await.unwrap(), Written::Recorded);
    first.give_back().await.unwrap();
    assert!(shelf.store.hold_units(&more).await.unwrap().is_some(), "released units must be free again");
    assert_eq!((shelf.stock().await, shelf.keys().await), (2, vec!["one".to_owned()]));

    let sqlite = Shelf::sqlite(&catalogue(1, 3)).await;
    assert!(matches!(sqlite.store.hold_units(&one).await, Err(StoreError::NeedsPostgres)));
}

#[tokio::test]
async fn reservation_ends_once() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let (store, kept) = (&shelf.store, reservation("kept", 4));
        assert_eq!(store.reserve(&kept, None).await.unwrap(), Reserved::Held);
        assert_eq!(store.reserve(&kept, None).await.unwrap(), Reserved::IdTaken);
        assert_eq!(store.reserve(&reservation("more", 7), None).await.unwrap(), Reserved::SoldOut);
        assert_eq!(shelf.stock().await, 6);
        let due = |now| async move { store.reservations_due(UtcTime::from_millis(now)).await.unwrap() };
        assert_eq!((due(999).await, due(1_000).await), (vec![], vec![kept.clone()]));

        let expire = || store.give_back(&kept, ReservationState::Expired, None);
        let both = tokio::join!(expire(), expire());
        let mut both = [both.0.unwrap(), both.1.unwrap()];
        both.sort_by_key(|changed| *changed != Changed::Done);
        assert_eq!(both, [Changed::Done, Changed::NothingToDo]);
        assert_eq!(shelf.stock().await, 10);

        let paid = order("kept");
        let confirmed = store.confirm(&kept, entry(&paid, None)).await.unwrap();
        assert_eq!(
            (confirmed, shelf.keys().await.len()),
            (None, 0),
            "a cancelled or expired reservation must not be confirmed"
        );
        assert_eq!(
            store.reserve(&kept, None).await.unwrap(),
            Reserved::Held,
            "the id of an ended reservation can be used again"
        );
        assert_eq!(store.confirm(&kept, entry(&paid, None)).await.unwrap(), Some(Written::Recorded));
        assert_eq!((shelf.stock().await, due(1_000).await), (6, vec![]));
        assert_eq!(store.reservation("kept").await.unwrap().unwrap().state, ReservationState::Confirmed);
    }
}

#[tokio::test]
async fn reservation_checks_and_advances_the_fence() {
    for shelf in Shelf::both(&catalogue(1, 10)).await {
        let store = &shelf.store;
        let late = order("late");
        store.fenced_read(&sku(0), OLD).await.unwrap();
        assert_eq!(store.reserve(&reservation("new", 1), Some(NEW)).await.unwrap(), Reserved::Held);
        let written = store.fenced_write(entry(&late, Some(7)), pieces(9), OLD).await.unwrap();
        assert_eq!(written, Written::Stale(STALE), "a stale write must not overwrite the reservation");
        assert_eq!(store.reserve(&reservation("old", 1), Some(OLD)).await.unwrap(), Reserved::Stale(STALE));
        let back =
            store.give_back(&reservation("new", 1), ReservationState::Expired, Some(OLD)).await.unwrap();
        assert_eq!((back, shelf.stock().await), (Changed::Stale(STALE), 9));
    }
}

#[tokio::test]
async fn restock_happens_once_per_run_and_is_fenced() {
    for shelf in Shelf::both(&catalogue(2, 10)).await {
        let store = &shelf.store;
        let one = order("one");
        store.write(entry(&one, None), pieces(2)).await.unwrap();
        assert_eq!(store.running_out(3).await.unwrap(), [(sku(0), pieces(8))]);
        let restock =
            |run, token| async move { store.restock(run, &sku(0), pieces(8), token).await.unwrap() };
        assert_eq!(restock("run-1", NEW).await, Changed::Done);
        assert_eq!(restock("run-1", NEW).await, Changed::NothingToDo);
        assert_eq!(restock("run-2", OLD).await, Changed::Stale(STALE));
        assert_eq!((shelf.stock().await, store.running_out(3).await.unwrap()), (10, vec![]));
        assert_eq!(store.product(&sku(0)).await.unwrap().supplied, 18);
    }
}

#[tokio::test]
async fn many_shops_set_up_one_empty_database() {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = DatabaseUrl::sqlite(&directory.path().join("shop.sqlite")).unwrap();
    for url in [sqlite, empty_postgres().await] {
        let open = async || {
            let store = Store::open(&url).await.unwrap();
            store.set_up(&catalogue(3, 10)).await.unwrap();
            store
        };
        let stores = join_all((0..8).map(|_| open())).await;
        assert_eq!(stores[7].products().await.unwrap().len(), 3, "{url}");
        stores[0].set_up(&catalogue(5, 1)).await.unwrap();
        assert_eq!(stores[0].products().await.unwrap().len(), 3, "an existing stock must not change");
    }
}
