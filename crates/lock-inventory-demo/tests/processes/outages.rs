//! Servers that are down, that stop during orders, and that lose their data.

use crate::support::{Customer, PRICE, Reply, World, assert_honest, until};
use std::{
    env,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// Customers who order one unit after the other.
struct Crowd {
    customers: Vec<Customer>,
    orders: Vec<JoinHandle<Vec<Reply>>>,
    decided: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Crowd {
    fn start(shops: &[SocketAddr]) -> Self {
        let (decided, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let customers: Vec<_> = (0..6).map(|number| Customer::new(format!("customer-{number}"))).collect();
        let orders = customers.iter().cloned().map(|customer| {
            let (shops, decided, stop) = (shops.to_vec(), decided.clone(), stop.clone());
            tokio::spawn(async move {
                let mut replies = Vec::new();
                for order in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (sku, key) = (["lamp", "radio"][order % 2], format!("order-{order}"));
                    replies.extend(customer.insist(&shops, sku, &key).await);
                    assert!(replies.last().is_some_and(Reply::is_sold), "{:?}", replies.last());
                    decided.fetch_add(1, Ordering::Relaxed);
                }
                replies
            })
        });
        Self { orders: orders.collect(), customers, decided, stop }
    }

    /// Waits until this many more orders are decided.
    async fn progress(&self, orders: usize) {
        let goal = self.decided.load(Ordering::Relaxed) + orders;
        until("orders", async || self.decided.load(Ordering::Relaxed) >= goal).await;
    }

    /// Waits until an order met the outage.
    async fn outage(&self) {
        let unavailable = || self.customers.iter().map(Customer::unavailable).sum::<usize>();
        let before = unavailable();
        until("a 503", async || unavailable() > before).await;
    }

    /// Lets each customer finish the current order, and returns all replies.
    async fn finish(self) -> Vec<Reply> {
        self.stop.store(true, Ordering::Relaxed);
        let mut replies = Vec::new();
        for orders in self.orders {
            replies.extend(orders.await.unwrap());
        }
        replies
    }
}

const PRODUCTS: [(&str, i64); 2] = [("lamp", 10_000), ("radio", 10_000)];

#[tokio::test(flavor = "multi_thread")]
async fn redis_loses_its_data_during_orders() {
    let world = World::sqlite(&PRODUCTS).await;
    let shops = [world.shop("a"), world.shop("b")];
    let crowd = Crowd::start(&[shops[0].address, shops[1].address]);
    crowd.progress(20).await;
    for _ in 0..3 {
        world.redis.command(&["FLUSHALL"]);
        crowd.progress(10).await;
        world.redis.restart_empty();
        crowd.progress(10).await;
    }
    let replies = crowd.finish().await;
    assert_honest(&replies);
    let audit = world.audit().await;
    assert!(audit.orders >= 80, "{audit:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_stops_during_orders() {
    let world = World::postgres(&PRODUCTS).await;
    let postgres = world.postgres.as_ref().unwrap();
    let shops = [world.shop("a"), world.shop("b")];
    let crowd = Crowd::start(&[shops[0].address, shops[1].address]);
    crowd.progress(20).await;
    postgres.stop();
    crowd.outage().await;
    if env::var_os("LOCK_LONG").is_some() {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    postgres.restart();
    crowd.progress(20).await;
    let replies = crowd.finish().await;
    let failed = replies.iter().find(|reply| reply.status == 500);
    assert!(failed.is_none(), "an outage is not the shop's fault: {failed:#?}");
    assert_honest(&replies);
    let audit = world.audit().await;
    assert!(audit.orders >= 40, "{audit:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shop_starts_while_redis_is_down() {
    let world = World::sqlite(&[("lamp", 1)]).await;
    world.redis.stop();
    let (shop, ann) = (world.shop("a"), Customer::new("ann"));
    let status = async |path: &str| ann.get(shop.address, path).await.unwrap().status.as_u16();
    assert_eq!((status("/health/live").await, status("/health/ready").await), (200, 503));
    assert_eq!(status("/products").await, 200, "the catalogue needs no lock");
    let refused = ann.order(shop.address, "lamp", "k").await.unwrap();
    assert!(refused.status == 503 && refused.retry, "{refused:?}");

    world.redis.restart();
    until("ready", async || status("/health/ready").await == 200).await;
    let replies = ann.insist(&[shop.address], "lamp", "k").await;
    assert!(replies.last().unwrap().is_sold(), "{replies:#?}");
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged), (1, PRICE));
}
