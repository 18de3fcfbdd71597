//! The stages of one call: gate, fault, gate.

use super::{
    fault::{Fault, Kept, Op},
    fault_plan::FaultPlan,
};
use lock_core::backend::{Applied, BackendError, BackendErrorKind};
use std::{
    future::{Future, pending},
    sync::Arc,
};
use tokio::time::sleep;

/// Executes a call. `apply` sends the request to the inner backend and is called as often as the fault
/// requires. `fail` turns an error into a reply.
pub(super) async fn carry_out<T, F>(
    plan: &Arc<FaultPlan>,
    op: Op,
    apply: impl Fn() -> F + Send,
    fail: impl Fn(BackendError) -> T + Send,
) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let _under_way = plan.counts.begin(op);
    let fate = plan.fate(op);
    if let Some(gate) = &fate.before {
        gate.pass().await;
    }
    let once = || {
        plan.counts.apply(op);
        apply()
    };
    let lost = |message| fail(BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message));
    let refused = |kind, message| fail(BackendError::new(kind, Applied::No, message));
    let answer = match fate.fault {
        Fault::None => once().await,
        Fault::Delay(time) => {
            sleep(time).await;
            once().await
        }
        Fault::SlowAnswer(time) => {
            let answer = once().await;
            sleep(time).await;
            answer
        }
        Fault::FailBefore(kind) => refused(kind, "planned fault: the request was not sent"),
        Fault::Refuse(kind) => refused(kind, "planned fault: the request was refused"),
        Fault::LoseRequest => lost("planned fault: the request was lost"),
        Fault::ApplyThenLose => {
            once().await;
            lost("planned fault: the reply was lost")
        }
        Fault::Hang => pending().await,
        Fault::ApplyThenHang => {
            once().await;
            pending().await
        }
        Fault::ApplyThenPanic => {
            once().await;
            panic!("planned fault: the backend panicked")
        }
        Fault::Twice(kept) => {
            let first = once().await;
            let second = once().await;
            match kept {
                Kept::First => first,
                Kept::Second => second,
            }
        }
        Fault::Late(time) => {
            let (plan, call) = (plan.clone(), apply());
            tokio::spawn(async move {
                sleep(time).await;
                plan.counts.apply(op);
                call.await
            });
            pending().await
        }
    };
    if let Some(gate) = &fate.after {
        gate.pass().await;
    }
    answer
}
