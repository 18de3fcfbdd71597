//! One candidate of an election, until it is terminated.

use super::Failure;
use crate::{
    line::{Order, Report, now},
    node::Orders,
    referee::Witness,
};
use lock_core::{
    LockFactory,
    election::{Election, ElectionOptions, Role, Term},
    shutdown_signal,
};
use std::{convert::Infallible, future::pending, time::Duration};

pub(super) async fn run(
    locks: &LockFactory,
    name: &str,
    lease: Duration,
    witness: Option<(Witness, Duration)>,
    orders: Orders,
) -> Result<(), Failure> {
    let election = locks.election(name)?.with_options(ElectionOptions::new().lease(lease))?;
    let process = locks.process_id().to_string();
    Report::Candidate { process: process.clone() }.say();
    let obeying = tokio::spawn(obey(election.clone(), process, orders));
    let body = |term: Term| {
        let inside =
            witness.as_ref().map(|(witness, lease)| witness.enters(term.hold().clone(), *lease / 20));
        Report::Elected { token: term.fencing_token().get(), at: now() }.say();
        async move {
            // Dropped in reverse order: the referee is notified first.
            let _ended = ReportsEnd;
            let _inside = inside;
            pending::<Result<(), Infallible>>().await
        }
    };
    election.lead(body).until(shutdown_signal()?).await?;
    obeying.abort();
    Report::Stopped.say();
    Ok(())
}

/// Reports the end of a body when it is dropped.
struct ReportsEnd;

impl Drop for ReportsEnd {
    fn drop(&mut self) {
        Report::BodyEnded { at: now() }.say();
    }
}

async fn obey(election: Election, process: String, mut orders: Orders) {
    let role = election.role();
    loop {
        orders.wait_for(&Order::Role).await;
        let (leading, leader) = match &*role.borrow() {
            role if role.is_leading() => (true, process.clone()),
            Role::Following { leader: Some(leader) } => {
                (false, leader.process().map_or_else(String::new, |id| id.to_string()))
            }
            _ => (false, String::new()),
        };
        Report::Role { leading, leader }.say();
    }
}
