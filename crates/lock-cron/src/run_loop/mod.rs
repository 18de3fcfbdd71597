//! The run loop, which executes the commands of the planner. It has one set of tasks, and nothing else spawns.
//!
//! Everything that takes time is a task of the set. Its result is an [`Effect`](effect::Effect), an event of the loop.
//! Dropping the loop drops the set, and with it every running task.

mod beats;
mod clock_offset;
mod effect;
mod election;
mod events;
mod instances;
mod leadership;
mod lost_data;
mod main_loop;
mod overdue;
mod phase;
mod polling;
mod state;
mod unowned;

pub(crate) use state::RunLoop;
