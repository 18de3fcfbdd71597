//! Processes of ours, and the scaffolding around them.

use lock_node::process::Process;
use std::process::Command;

/// Our executable, told this.
pub(crate) fn node(url: &str, lease_ms: u64, words: &[&str]) -> Process {
    Process::start(&mut command(url, lease_ms, words))
}

/// The same, not yet started.
pub(crate) fn command(url: &str, lease_ms: u64, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-node"));
    command.args(["--lease", &lease_ms.to_string(), url]).args(words);
    command
}

/// Lets processes that count begin together, waits for their good end, and gives the tokens of all grants in the
/// order of their times.
pub(crate) fn count_together(mut nodes: Vec<Process>) -> Vec<u64> {
    for node in &mut nodes {
        node.expect("ready");
    }
    nodes.iter_mut().for_each(|node| node.tell("go"));
    let mut grants = Vec::new();
    for node in &mut nodes {
        for line in node.until("done").iter().filter(|line| line.word() == "token") {
            let number = |at| line.at(at).parse::<u64>().expect("a token line has two numbers");
            grants.push((number(2), number(1)));
        }
    }
    assert!(nodes.into_iter().all(Process::ends), "all end well");
    grants.sort_unstable();
    grants.into_iter().map(|(_, token)| token).collect()
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
