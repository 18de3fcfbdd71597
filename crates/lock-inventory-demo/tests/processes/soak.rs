//! Shops are killed, and suffer other faults, one after the other, at random moments, while customers order.

use crate::support::{Customer, PATIENCE, PRICE, Reply, Settings, Shop, World, until};
use lock_inventory_demo::domain::Cents;
use lock_testkit::{Seed, Stream};
use std::{
    collections::HashSet,
    env,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

const SHOPS: usize = 3;
const CUSTOMERS: usize = 8;
const LEASE_MS: u64 = 500;

/// Two products that last, and two that are sold out early.
const PRODUCTS: [(&str, i64); 4] = [("clock", 20), ("lamp", 100_000), ("radio", 100_000), ("teapot", 40)];

/// The state that the customers share with the test.
#[derive(Debug, Default)]
struct Sale {
    /// The addresses of the shops, which change with every restart.
    shops: Mutex<Vec<SocketAddr>>,
    decided: AtomicUsize,
    stop: AtomicBool,
}

/// The ends of the orders of one customer.
#[derive(Debug, Default)]
struct Ends {
    sold: usize,
    sold_out: Vec<String>,
    refunded: Vec<String>,
    /// Not repeated after a connection broke.
    left: usize,
}

/// A fault that strikes one shop, or all of them.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    /// For longer than the lease.
    Pause,
    /// Redis loses its data.
    Flush,
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_shops_charge_for_orders_alone() {
    let kills = if env::var_os("LOCK_LONG").is_some() { 1_000 } else { 50 };
    soak(World::sqlite(&PRODUCTS).await, "kills", kills, &[Fault::Kill]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_faults_leave_balanced_books() {
    let faults = if env::var_os("LOCK_LONG").is_some() { 300 } else { 20 };
    let world = World::postgres(&PRODUCTS).await;
    soak(world, "faults", faults, &[Fault::Kill, Fault::Pause, Fault::Flush]).await;
}

/// Lets customers order while faults strike the shops in turn, and audits the books.
async fn soak(world: World, what: &str, count: usize, faults: &[Fault]) {
    let settings =
        Settings { lease_ms: LEASE_MS, payment_delay_ms: 100, settle_after_s: 2, ..Settings::default() };
    let start = |number: usize| world.shop_with(&format!("shop-{number}"), &settings);
    let mut shops: Vec<Shop> = (0..SHOPS).map(start).collect();
    let sale = Arc::new(Sale {
        shops: Mutex::new(shops.iter().map(|shop| shop.address).collect()),
        ..Sale::default()
    });
    let seed = Seed::of_this_run();
    let customers: Vec<_> =
        (0..CUSTOMERS).map(|number| tokio::spawn(orders(number, seed, sale.clone()))).collect();

    let (mut random, mut cut_off) = (seed.stream(), HashSet::new());
    for strike in 0..count {
        let before = sale.decided.load(Ordering::Relaxed);
        until("orders", async || sale.decided.load(Ordering::Relaxed) > before).await;
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        let number = strike % SHOPS;
        match faults[random.below(faults.len() as u64) as usize] {
            Fault::Kill => {
                shops[number].kill();
                cut_off.extend(world.charged_without_order().await);
                let restarted = tokio::task::block_in_place(|| start(number));
                sale.shops.lock().unwrap()[number] = restarted.address;
                shops[number] = restarted;
            }
            Fault::Pause => {
                shops[number].pause();
                tokio::time::sleep(Duration::from_millis(LEASE_MS + random.below(LEASE_MS))).await;
                shops[number].resume();
            }
            Fault::Flush => drop(world.redis.command(&["FLUSHALL"])),
        }
        world.audit_meanwhile().await;
    }
    sale.stop.store(true, Ordering::Relaxed);
    let (mut sold, mut refunded, mut left) = (0, 0, 0);
    for (number, customer) in customers.into_iter().enumerate() {
        let (ends, customer) = (customer.await.unwrap(), name(number));
        for key in &ends.sold_out {
            assert_eq!(world.payment(&customer, key).await, None, "{key} was charged");
        }
        for key in &ends.refunded {
            assert_eq!(world.payment(&customer, key).await.as_deref(), Some("refunded"), "{key}");
        }
        sold += ends.sold;
        refunded += ends.refunded.len();
        left += ends.left;
    }
    let audit = world.audit().await;
    println!(
        "| {what} | charged without order at a kill | orders | sold | refunded | left | charged | ordered | refunded |"
    );
    println!(
        "| {count} | {} | {} | {sold} | {refunded} | {left} | {} | {} | {} |",
        cut_off.len(),
        audit.orders,
        Cents::new(audit.charged),
        Cents::new(audit.ordered),
        Cents::new(audit.refunded)
    );
    assert!(audit.orders >= sold && audit.orders <= sold + left, "{audit:#?}");
    assert!(audit.ordered == PRICE * audit.sold && sold > 0, "{audit:#?}");
}

fn name(number: usize) -> Customer {
    Customer::new(format!("customer-{number}"))
}

/// Orders one unit after the other, each at a random shop. One in four orders is not repeated if its connection breaks.
async fn orders(number: usize, seed: Seed, sale: Arc<Sale>) -> Ends {
    let mut random = Seed::new(seed.get().wrapping_add(1 + number as u64)).stream();
    let (customer, mut ends) = (name(number), Ends::default());
    for order in 0.. {
        if sale.stop.load(Ordering::Relaxed) {
            break;
        }
        let (sku, _) = PRODUCTS[random.below(4) as usize];
        let (key, stays) = (format!("order-{order}"), random.below(4) > 0);
        let end = decided(&customer, sku, &key, stays, &sale, &mut random).await;
        sale.decided.fetch_add(1, Ordering::Relaxed);
        match end {
            None => ends.left += 1,
            Some(reply) if reply.is_sold() => ends.sold += 1,
            Some(reply) => match reply.problem().as_str() {
                "sold-out" => ends.sold_out.push(key),
                "refunded" => ends.refunded.push(key),
                _ => panic!("{reply:?}"),
            },
        }
    }
    ends
}

/// Repeats an order until it is decided. Returns `None` if the customer leaves.
async fn decided(
    customer: &Customer,
    sku: &str,
    key: &str,
    stays: bool,
    sale: &Sale,
    random: &mut Stream,
) -> Option<Reply> {
    let begin = Instant::now();
    loop {
        let shop = sale.shops.lock().unwrap()[random.below(SHOPS as u64) as usize];
        match customer.order(shop, sku, key).await {
            Ok(reply) if reply.is_final() => return Some(reply),
            Err(_) if !stays => return None,
            undecided => {
                assert!(begin.elapsed() < PATIENCE, "{key} is not decided: {undecided:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
