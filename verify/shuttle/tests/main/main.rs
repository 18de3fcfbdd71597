//! Schedules of the driver: interleavings of threads between any two uses of a mutex or an atomic.
//!
//! Uses Shuttle instead of loom: loom tries every schedule, and every order that weak memory allows, of a few dozen
//! steps, whereas a story here takes hundreds of steps through the unmodified driver. Shuttle draws schedules, at
//! random and with few switches (PCT), and treats atomics as sequentially consistent. Tokio's `Notify` is one step
//! here; tokio tests its internals with loom.

mod calls;
mod cells;
mod explore;
mod grants;
mod guards;
mod hand_off;
mod losses;
mod shutdowns;
mod submitted;
mod time;
mod world;
