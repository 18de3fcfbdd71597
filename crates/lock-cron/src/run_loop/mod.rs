//! The run loop, which executes the planner's commands. It spawns all tasks of the scheduler, in one set.
//!
//! Everything that takes time is a task in this set. Its result is an [`Effect`](effect::Effect), which the loop
//! handles as an event. Dropping the loop drops the set, and with it every running task.

mod beats;
mod clock_offset;
mod declined;
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
