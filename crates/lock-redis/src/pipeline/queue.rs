//! The queue that decides when to send. It only holds data; its callers send.
//!
//! An operation is sent immediately while at most one call is in progress. Each further call in
//! progress doubles the number of operations that must gather before the next call. At low
//! load, operations therefore never wait; at high load, many share the cost of a call. No timer is
//! involved: every reply allows further calls.

use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The maximum number of operations in a call. Such a call blocks the server for about 0.1 ms.
pub(super) const MAX_BATCH: usize = 32;
/// The maximum number of calls in progress.
const MAX_CALLS: usize = 8;

/// The waiting operations and the number of calls in progress.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: VecDeque<Queued<T>>,
    calls: usize,
}

/// An operation and the moment since which it has been waiting.
#[derive(Debug)]
pub(super) struct Queued<T> {
    pub(super) operation: T,
    pub(super) since: Instant,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), calls: 0 }
    }
}

impl<T> Queue<T> {
    /// Returns `true` if nothing is waiting or in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.calls == 0
    }

    /// Adds an operation. Returns `true` if it allows a call, in which case the task must be woken.
    pub(super) fn push(&mut self, operation: T, since: Instant) -> bool {
        let before = self.may_send();
        self.waiting.push_back(Queued { operation, since });
        !before && self.may_send()
    }

    /// Returns `true` if a call may be sent now.
    pub(super) fn may_send(&self) -> bool {
        let enough = (1 << self.calls.saturating_sub(1)).min(MAX_BATCH);
        self.calls < MAX_CALLS && self.waiting.len() >= enough
    }

    /// Takes the operations of the next call if one may be sent now. The call then counts as in progress.
    pub(super) fn next_call(&mut self) -> Option<Vec<Queued<T>>> {
        if !self.may_send() {
            return None;
        }
        self.begin_call();
        let size = self.waiting.len().min(MAX_BATCH);
        Some(self.waiting.drain(..size).collect())
    }

    /// Records that a call has begun.
    pub(super) fn begin_call(&mut self) {
        self.calls += 1;
    }

    /// Records that calls have ended.
    pub(super) fn end_calls(&mut self, calls: usize) {
        self.calls -= calls;
    }

    /// Forgets all calls in progress except for this many.
    pub(super) fn forget_calls(&mut self, but: usize) {
        self.calls = but;
    }

    /// Returns the moment since which the oldest operation has been waiting.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|queued| queued.since)
    }

    /// Removes the operations that have waited this long.
    pub(super) fn take_older_than(&mut self, age: Duration, now: Instant) -> Vec<T> {
        let old = self.waiting.iter().take_while(|queued| now >= queued.since + age).count();
        self.waiting.drain(..old).map(|queued| queued.operation).collect()
    }

    /// Removes all operations.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.waiting.drain(..).map(|queued| queued.operation).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(waiting: usize) -> Queue<usize> {
        let mut queue = Queue::default();
        for number in 0..waiting {
            queue.push(number, Instant::now());
        }
        queue
    }

    fn next(queue: &mut Queue<usize>) -> Option<Vec<usize>> {
        Some(queue.next_call()?.into_iter().map(|queued| queued.operation).collect())
    }

    #[tokio::test]
    async fn first_operation_is_sent_immediately() {
        let mut queue = queue(0);
        assert!(queue.is_idle() && next(&mut queue).is_none());
        assert!(queue.push(7, Instant::now()), "the task is woken");
        assert_eq!(next(&mut queue), Some(vec![7]));
        assert!(!queue.is_idle() && next(&mut queue).is_none());
    }

    #[tokio::test]
    async fn others_gather_while_a_call_is_under_way() {
        let mut queue = queue(0);
        (0..4).for_each(|_| queue.begin_call());
        let woken: Vec<_> = (0..40).filter(|number| queue.push(*number, Instant::now())).collect();
        assert_eq!(woken, [7], "only for the operation that completes the batch");
        assert_eq!(next(&mut queue), Some((0..32).collect()));
        assert_eq!(next(&mut queue), None, "eight are too few with five calls under way");
        queue.end_calls(1);
        assert_eq!(next(&mut queue), Some((32..40).collect()), "a reply allows the call");
        queue.end_calls(5);
        assert!(queue.is_idle());
    }

    #[tokio::test]
    async fn each_call_under_way_doubles_the_required_batch() {
        let mut queue = queue(0);
        let sent: Vec<_> = (0..100)
            .filter_map(|number| {
                queue.push(number, Instant::now());
                next(&mut queue).map(|call| call.len())
            })
            .collect();
        assert_eq!(sent, [1, 1, 2, 4, 8, 16, 32, 32]);
    }

    #[tokio::test]
    async fn many_operations_share_eight_calls() {
        let mut queue = queue(1_000);
        let calls: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(calls.len(), MAX_CALLS);
        assert!(calls.iter().all(|call| call.len() == MAX_BATCH));
        assert!(!queue.push(1_000, Instant::now()), "no call is allowed now");
        queue.end_calls(1);
        assert_eq!(next(&mut queue).map(|call| call[0]), Some(256), "in order");
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_operations_are_taken_in_order() {
        let (mut queue, age) = (queue(0), Duration::from_millis(300));
        for number in 0..5 {
            queue.push(number, Instant::now());
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        let first = queue.oldest().expect("five waiters");
        assert_eq!(queue.take_older_than(age, first + age), [0]);
        assert_eq!(queue.take_older_than(age, Instant::now()), [1, 2]);
        assert_eq!(queue.take_all(), [3, 4]);
        assert!(queue.is_idle() && queue.oldest().is_none());
    }
}
