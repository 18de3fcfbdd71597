//! Helpers for several processes or threads at once.

use crate::{line::Order, process::Process};

/// Starts counting in all processes, waits for their successful ends, and returns the tokens of all grants in the order
/// of time.
///
/// # Panics
/// If one of them fails.
pub fn count_together(mut nodes: Vec<Process>) -> Vec<u64> {
    for node in &mut nodes {
        node.expect("ready");
    }
    nodes.iter_mut().for_each(|node| node.tell(&Order::Go));
    let mut grants = Vec::new();
    for node in &mut nodes {
        for line in node.until("done").iter().filter(|line| line.word() == "token") {
            grants.push((line.number("at"), line.number("token")));
        }
    }
    assert!(nodes.into_iter().all(Process::ends), "clean exits");
    grants.sort_unstable();
    grants.into_iter().map(|(_, token)| token).collect()
}

/// Runs `work` in this many threads.
///
/// # Panics
/// If one of them panics.
pub fn at_once<T: Send + 'static>(
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
