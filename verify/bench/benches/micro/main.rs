//! The state machine alone, and the driver over the in-memory backend, with times and allocations:
//! `cargo bench -p lock-bench`.

use divan::AllocProfiler;

mod driver;
mod machine;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}
