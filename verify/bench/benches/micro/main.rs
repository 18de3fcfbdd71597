//! Times and allocations of the state machine alone, and of the driver over the in-memory backend. Run with
//! `cargo bench -p lock-bench`.

use divan::AllocProfiler;

mod driver;
mod machine;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}
