//! Records which process holds which lock, under which token and until when, and judges; see `lock_trials::referee`.

use lock_trials::{line::Orders, node::Failure, referee};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    referee::preside(&mut Orders::from_stdin()).await
}
