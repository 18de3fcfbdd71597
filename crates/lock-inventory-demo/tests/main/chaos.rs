//! Orders of the stock and of reservations, while reservations end, locks are lost, payments fail and jobs settle.

use crate::support::{Answer, PRICE, Stage, order, send, sku};
use async_trait::async_trait;
use distlock::LockName;
use lock_inventory_demo::{
    Shop,
    audit::{Audit, Books},
    domain::{Cents, OrderKey},
    jobs::settle_open,
    payments::{Charge, Payment, PaymentError, Payments, Provider},
    store::End,
};
use lock_testkit::{Seed, Stream};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{task::JoinHandle, time::sleep};

const SHOPS: u64 = 3;
const CUSTOMERS: u64 = 8;
const ORDERS: u64 = 12;

/// Payments that fail before or after their effect.
#[derive(Debug)]
struct Flaky {
    provider: Provider,
    random: Mutex<Stream>,
}

impl Flaky {
    async fn strike(&self) -> Result<(), PaymentError> {
        let (fails, pause) = {
            let mut random = self.random.lock().unwrap();
            (random.below(6) == 0, random.below(15))
        };
        sleep(Duration::from_millis(pause)).await;
        if fails { Err(PaymentError::NoAnswer) } else { Ok(()) }
    }
}

#[async_trait]
impl Payments for Flaky {
    async fn charge(&self, key: &OrderKey, cents: Cents) -> Result<Charge, PaymentError> {
        self.strike().await?;
        let charge = self.provider.charge(key, cents).await;
        self.strike().await?;
        charge
    }

    async fn refund(&self, key: &OrderKey) -> Result<(), PaymentError> {
        self.strike().await?;
        self.provider.refund(key).await?;
        self.strike().await
    }

    async fn statement(&self) -> Result<Vec<Payment>, PaymentError> {
        self.provider.statement().await
    }
}

fn name(number: u64) -> String {
    format!("customer-{number}")
}

/// Sends the orders of one customer, each until it has an end. Half of them are for a reservation, which may end at any time.
async fn orders(name: String, shops: Arc<Vec<Shop>>, mut random: Stream) -> Vec<(String, Answer)> {
    let mut ends = Vec::new();
    for number in 0..ORDERS {
        let (key, mut body) = (format!("k{number}"), r#"{"quantity":1}"#.to_owned());
        if random.below(2) == 0 {
            let shop = &shops[random.below(SHOPS) as usize];
            let hold = format!(r#"{{"quantity":1,"seconds":{}}}"#, random.below(3));
            send(shop, "POST", "/products/kettle/reservations", &name, &key, &hold).await;
            body = format!(r#"{{"quantity":1,"reservation":"{key}"}}"#);
            if random.below(3) == 0 {
                let (shop, name, path) = (shop.clone(), name.clone(), format!("/reservations/{key}"));
                let pause = Duration::from_millis(random.below(30));
                tokio::spawn(async move {
                    sleep(pause).await;
                    send(&shop, "DELETE", &path, &name, "", "").await;
                });
            }
        }
        let end = loop {
            let answer = order(&shops[random.below(SHOPS) as usize], &name, &key, &body).await;
            if answer.status < 500 && !answer.headers.contains_key("retry-after") {
                break answer;
            }
            sleep(Duration::from_millis(random.below(30))).await;
        };
        ends.push((format!("{name}/{key}"), end));
    }
    ends
}

/// Settles and expires, again and again.
fn jobs(shop: Shop) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let _ = settle_open(&shop, Duration::ZERO).await;
            for id in shop.store.reservations_due().await.unwrap() {
                shop.store.end_reservation(&id, End::Expired).await.unwrap();
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_all_kinds_leave_honest_answers_and_balanced_books() {
    let stage = Stage::with_units(40).await;
    let seed = Seed::of_this_run();
    let stream = |number: u64| Seed::new(seed.get().wrapping_add(number)).stream();
    let shop = |number: u64| {
        let random = Mutex::new(stream(100 + number));
        stage.shop_with(Arc::new(Flaky { provider: stage.provider.clone(), random }))
    };
    let shops: Arc<Vec<Shop>> = Arc::new((0..SHOPS).map(shop).collect());
    let customer = |number| tokio::spawn(orders(name(number), shops.clone(), stream(number)));
    let customers: Vec<_> = (0..CUSTOMERS).map(customer).collect();
    let jobs = jobs(shops[0].clone());

    let (mut random, mut deliveries) = (stream(200), 0);
    while !customers.iter().all(JoinHandle::is_finished) {
        let mut lost = vec![LockName::of(("product", sku().as_str())).unwrap()];
        lost.extend((0..20).map(|_| {
            let (key, scope) = (format!("k{}", random.below(ORDERS)), name(random.below(CUSTOMERS)));
            LockName::of(("idempotency", &*key, &*scope)).unwrap()
        }));
        for lock in lost.iter().skip(random.below(2) as usize) {
            shops[0].locks.force_release(lock).await.unwrap();
        }
        if random.below(8) == 0 {
            deliveries += 1;
            stage.store.restock(&sku(), &deliveries.to_string(), 2.try_into().unwrap()).await.unwrap();
        }
        // The shops sell in the meantime.
        let audit = Audit::of(&Books::read(&stage.store, &stage.provider).await.unwrap());
        assert_eq!(audit.breaches, [], "{audit}");
        sleep(Duration::from_millis(random.below(40))).await;
    }
    jobs.abort();
    let _ = jobs.await;
    settle_open(&stage.shop(), Duration::ZERO).await.unwrap();
    let audit = stage.audit().await;
    assert!(audit.pending == 0 && audit.ordered == PRICE * audit.orders as i64, "{audit}");
    let statement = stage.provider.statement().await.unwrap();
    for customer in customers {
        for (key, end) in customer.await.unwrap() {
            let payment = statement.iter().find(|payment| payment.key == key && payment.cents > 0);
            let state = payment.map(|payment| payment.state.as_str());
            match (end.status, end.problem()) {
                (200 | 201, _) => assert_eq!(state, Some("charged"), "{key}: {end:?}"),
                (409, "sold-out") => assert_eq!(state, None, "{key}: {end:?}"),
                (409, "refunded") => assert_ne!(state, Some("charged"), "{key}: {end:?}"),
                other => panic!("{key}: {other:?}"),
            }
        }
    }
}
