//! Cycles of acquire and release on tokio's default runtime.

use super::{OVERTIME, Used};
use crate::{
    Result,
    contestants::Locks,
    load::{Load, cycle},
    measure::{nanos, write},
    order::{Answer, Order, wait_for_start},
};
use tokio::{runtime::Runtime, task::JoinSet, time::timeout};

pub(crate) fn run<L: Locks>(order: &Order, load: &Load) -> Result<Answer> {
    let runtime = Runtime::new()?;
    let client = runtime.block_on(L::connect(&order.url))?;
    let locks = load.locks(&client, order.process)?;
    let start = wait_for_start()?;
    // The cycles before the start warm up connections, scripts and caches.
    let end = start + nanos(load.window);
    let mut tasks = JoinSet::new();
    for task in 0..load.tasks {
        let cycles = cycle(load.clone(), locks.clone(), order.process, task, end);
        tasks.spawn_on(cycles, runtime.handle());
    }
    let used = Used::during(order, start, load.window)?;
    let finish = async {
        let mut sections = Vec::new();
        while let Some(task) = tasks.join_next().await {
            sections.extend(task??);
        }
        Result::Ok(sections)
    };
    let sections = runtime
        .block_on(async { timeout(OVERTIME, finish).await })
        .map_err(|_| format!("tasks are still waiting for the lock {OVERTIME:?} after the end"))??;
    write(&order.records, &sections)?;
    Ok(serde_json::to_value(used)?)
}
