//! The shop under faults: processes that are killed and suspended, servers that stop and lose their data, and customers who
//! give up and repeat. At the end of each test, the audit of both databases balances, also its money.

// A failed setup step fails the test.
#![allow(clippy::unwrap_used)]

mod customers;
mod kills;
mod outages;
mod pauses;
mod soak;
mod stalls;
mod support;
