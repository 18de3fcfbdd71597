//! Three shops behind nginx, with PostgreSQL and Redis, as in compose.yaml:
//! `cargo test -p lock-inventory-demo --features servers --test nginx`.

// A failed setup step fails the test.
#![allow(clippy::unwrap_used)]

mod proxy;
#[allow(dead_code, unused_imports)] // these tests use a part of it
#[path = "../processes/support/mod.rs"]
mod support;

use lock_testkit::unused_address;
use proxy::{Nginx, Proxied};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use support::{Customer, Settings, World, assert_honest, until};

const CUSTOMERS: usize = 8;

#[test]
fn configuration_is_valid() {
    let checked = Nginx::check(&["127.0.0.1:8080".parse().unwrap()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// Orders one unit after the other, and returns the number of orders.
async fn orders(customer: Customer, nginx: SocketAddr, stop: Arc<AtomicBool>) -> usize {
    for order in 0.. {
        if stop.load(Ordering::Relaxed) {
            return order;
        }
        let (sku, key) = (["lamp", "radio"][order % 2], format!("order-{order}"));
        let replies = customer.insist(&[nginx], sku, &key).await;
        assert!(replies.last().unwrap().is_sold(), "{replies:#?}");
        assert_honest(&replies);
    }
    unreachable!("it orders until it is stopped")
}

/// Returns the orders that nginx has passed on.
fn proxied(nginx: &Nginx) -> Vec<Proxied> {
    nginx.log().into_iter().filter(|request| request.request.starts_with("POST")).collect()
}

/// Waits until every one of these shops has received orders, after the first `seen` ones.
async fn received_by(shops: &[SocketAddr], nginx: &Nginx, seen: usize) {
    until("orders", async || {
        let orders = proxied(nginx);
        let received = |shop| orders.iter().skip(seen).any(|order| order.receivers().contains(shop));
        shops.iter().all(received)
    })
    .await;
}

/// Waits until nginx has tried the dead shop with an order, and has sent the order to another one.
async fn tried_in_vain(shop: SocketAddr, nginx: &Nginx, seen: usize) {
    until("an order for the dead shop", async || {
        let orders = proxied(nginx);
        orders.iter().skip(seen).any(|order| order.shops.len() > 1 && order.shops.contains(&shop))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_shops_receive_no_order_twice() {
    let world = World::postgres(&[("lamp", 100_000), ("radio", 100_000)]).await;
    let settings = [(); 3].map(|()| Settings {
        listen: unused_address(),
        payment_delay_ms: 5,
        settle_after_s: 2,
        ..Settings::default()
    });
    let addresses = settings.each_ref().map(|settings| settings.listen);
    let start = |number: usize| world.shop_with(&format!("shop-{number}"), &settings[number]);
    let [mut killed, restarted, _third] = [0, 1, 2].map(start);
    let nginx = Nginx::start(&addresses);
    let stop = Arc::<AtomicBool>::default();
    let customers: Vec<_> = (0..CUSTOMERS)
        .map(|number| Customer::new(format!("customer-{number}")))
        .map(|customer| tokio::spawn(orders(customer, nginx.address, stop.clone())))
        .collect();

    received_by(&addresses, &nginx, 0).await;
    killed.kill();
    tried_in_vain(addresses[0], &nginx, proxied(&nginx).len()).await;
    let _killed = start(0);
    received_by(&addresses, &nginx, proxied(&nginx).len()).await;
    let status = tokio::task::block_in_place(|| restarted.terminate());
    assert!(status.success(), "{status}");
    tried_in_vain(addresses[1], &nginx, proxied(&nginx).len()).await;
    let _restarted = start(1);
    received_by(&addresses, &nginx, proxied(&nginx).len()).await;

    stop.store(true, Ordering::Relaxed);
    let mut sold = 0;
    for customer in customers {
        sold += customer.await.unwrap();
    }
    let audit = world.audit().await;
    assert_eq!(audit.orders, sold, "{audit:#?}");
    for order in proxied(&nginx) {
        assert!(order.receivers().len() <= 1, "sent to several shops: {order:?}");
    }
}
