//! Tests of the jobs, with two schedulers that share a store.

use crate::support::{Client, Shelf, catalogue, config, entry, order, pieces, shop, sku};
use axum::http::StatusCode;
use lock_cron::{RunId, RunOutcome, Scheduler, UtcTime};
use lock_inventory_demo::{
    domain::{Reservation, ReservationState},
    fault::Faults,
    jobs::{AUDIT, EXPIRE, RESTOCK, schedule},
    locks::Locks,
    shop::ShopConfig,
    strategy::Strategy,
};
use serde_json::json;
use std::time::Duration;
use tokio::{sync::watch, task::JoinHandle, time::sleep};

/// Two shops with running schedulers. They shut down gracefully when `stop` is sent.
struct Nodes {
    crons: Vec<Scheduler>,
    running: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    client: Client,
}

impl Nodes {
    async fn start(shelf: &Shelf) -> Self {
        let (locks, (stop, stopped)) = (Locks::in_memory(), watch::channel(false));
        let (mut crons, mut running, mut clients) = (Vec::new(), Vec::new(), Vec::new());
        for name in ["one", "two"] {
            let config = ShopConfig { name: name.into(), restock_below: 3, ..config(Strategy::Fenced) };
            let shop = shop(shelf, &locks, config, Faults::default()).await;
            let (cron, mut stopped) = (schedule(&shop).unwrap(), stopped.clone());
            crons.push(cron.clone());
            clients.push(Client::of(&shop));
            running.push(tokio::spawn(async move {
                let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
                cron.run_until(stop).await.unwrap();
            }));
        }
        Self { crons, running, stop, client: clients.remove(0) }
    }

    /// Triggers a job and waits for its end.
    async fn run(&self, job: &str) -> RunOutcome {
        let id = self.crons[0].trigger(job).await.unwrap();
        self.ended(job, id).await
    }

    async fn ended(&self, job: &str, id: RunId) -> RunOutcome {
        loop {
            let history = self.crons[0].history(job, 100).await.unwrap();
            if let Some(attempt) = history.into_iter().find(|attempt| attempt.run == id) {
                return attempt.outcome;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(self) {
        self.stop.send_replace(true);
        for running in self.running {
            running.await.unwrap();
        }
    }
}

#[tokio::test]
async fn expired_reservation_returns_its_units_once() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let nodes = Nodes::start(&shelf).await;
    let reservation = |id: &str, expires_at| Reservation {
        id: id.into(),
        sku: sku(0),
        quantity: pieces(2),
        cents: 500,
        expires_at,
        state: ReservationState::Held,
    };
    shelf.store.reserve(&reservation("past", UtcTime::from_millis(1)), None).await.unwrap();
    shelf.store.reserve(&reservation("future", UtcTime::from_micros(u64::MAX)), None).await.unwrap();
    let (one, two) =
        (nodes.crons[0].trigger(EXPIRE).await.unwrap(), nodes.crons[1].trigger(EXPIRE).await.unwrap());
    nodes.ended(EXPIRE, one).await;
    nodes.ended(EXPIRE, two).await;
    assert_eq!(shelf.stock().await, 8, "the future reservation must still keep two units");
    let state = async |id| shelf.store.reservation(id).await.unwrap().unwrap().state;
    assert_eq!(
        (state("past").await, state("future").await),
        (ReservationState::Expired, ReservationState::Held)
    );
    nodes.end().await;
}

#[tokio::test]
async fn restock_refills_a_product_that_runs_out() {
    let shelf = Shelf::sqlite(&catalogue(2, 10)).await;
    let nodes = Nodes::start(&shelf).await;
    assert_eq!(nodes.client.order("a", 9).await.status, StatusCode::CREATED);
    assert_eq!(nodes.run(RESTOCK).await, RunOutcome::Succeeded);
    assert_eq!((shelf.stock().await, nodes.run(RESTOCK).await), (10, RunOutcome::Succeeded));
    let product = shelf.store.product(&sku(0)).await.unwrap();
    assert_eq!((product.stock, product.supplied, product.sold), (10, 19, 9));
    assert_eq!(
        nodes.client.order("b", 10).await.status,
        StatusCode::CREATED,
        "the fence must accept the next holder"
    );
    assert_eq!(nodes.run(AUDIT).await, RunOutcome::Succeeded);
    nodes.end().await;
}

#[tokio::test]
async fn audit_fails_if_the_books_are_inconsistent() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let nodes = Nodes::start(&shelf).await;
    let one = order("one");
    shelf.store.write(entry(&one, None), pieces(9)).await.unwrap();
    assert_eq!(nodes.run(AUDIT).await, RunOutcome::Succeeded);
    shelf.corrupt("update sku set stock = 10").await;
    assert_eq!(nodes.run(AUDIT).await, RunOutcome::Failed);
    let detail = nodes.crons[0].history(AUDIT, 1).await.unwrap().remove(0).detail;
    assert!(
        detail.contains("the audit found 1 breach(es); the first is: P-0: 10 of 10 units are left"),
        "{detail}"
    );
    nodes.end().await;
}

#[tokio::test]
async fn state_and_readiness_show_the_jobs_and_one_leader() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let nodes = Nodes::start(&shelf).await;
    nodes.run(EXPIRE).await;
    let leaders = nodes.crons.iter().filter(|cron| cron.is_leading()).count();
    assert_eq!(leaders, 1);
    let role = nodes.client.get("/health/ready").await.json()["scheduler"].clone();
    let leads = nodes.crons[0].is_leading();
    assert_eq!(role, json!(if leads { "leader" } else { "follower" }));
    let state = nodes.client.get("/state").await.json();
    let names: Vec<_> =
        state["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, [EXPIRE, AUDIT, RESTOCK]);
    let expire = &state["jobs"][0];
    assert_eq!(expire["outcome"], "succeeded");
    assert!(expire["last"].is_string() && expire["next"].is_string(), "{expire}");
    assert_eq!(state["leader"], leads);
    nodes.end().await;
}
