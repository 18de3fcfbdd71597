//! Processes of ours, and the scaffolding around them.

use lock_node::process::Process;
use std::process::Command;

/// Our executable, told this.
pub(crate) fn node(url: &str, lease_ms: u64, words: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-node"));
    command.args(["--lease", &lease_ms.to_string(), url]).args(words);
    Process::start(&mut command)
}

/// Does each in a thread of its own, and fails if one fails.
pub(crate) fn at_once<T: Send + 'static>(
    times: usize,
    work: impl Fn(usize) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads: Vec<_> = (0..times)
        .map(|number| {
            let work = work.clone();
            std::thread::spawn(move || work(number))
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect()
}
