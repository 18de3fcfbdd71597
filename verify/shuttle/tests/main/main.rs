//! Schedules of the driver: what threads do to one another between any two uses of a mutex or an atomic.
//!
//! Shuttle and not loom: loom tries every schedule, and every order that weak memory allows, of a few dozen steps; one
//! story here takes hundreds, through the driver as it is. Shuttle draws schedules, at random and with few switches
//! (PCT), and takes atomics as sequentially consistent. Tokio's `Notify` is one step here: tokio explores its inside with loom.

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
