//! The desired and existing subscriptions, and the callers that are waiting for an acknowledgement.

use crate::error::{self, RequestError};
use lock_core::{
    LockName,
    backend::{BackendError, SubscriberId},
};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

/// The maximum number of channels in one batch.
const MAX_CHANNELS: usize = 1_000;
/// The time after which a refused channel is tried again. Permissions may be granted later, but each attempt
/// closes the connection that all other names share.
const REFUSED_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The pending reply to a subscription.
pub(crate) type Acknowledgement = oneshot::Receiver<Result<(), BackendError>>;

/// The channels of all names for which this process waits. The cost of each step depends on the size of the change, not
/// on the number of channels.
#[derive(Debug, Default)]
pub(super) struct SubscriptionState {
    /// The desired names by channel; `a` and `{a}` share a channel.
    wanted: HashMap<String, HashSet<LockName>>,
    /// Channels acknowledged by the server on the current connection.
    standing: HashSet<String>,
    /// Channels that are desired, but neither acknowledged nor recently refused.
    missing: HashSet<String>,
    /// Channels that are acknowledged but no longer desired.
    unwanted: HashSet<String>,
    /// Channels refused by the server: the time of the next attempt, and the error.
    refused: HashMap<String, (Instant, BackendError)>,
    /// Subscriptions waiting for an acknowledgement, by channel.
    waiting: HashMap<String, Vec<Waiting>>,
    /// `true` if names were adopted since the last check.
    adopted: bool,
    /// The maximum size of the next batch. It is reduced after a refusal to find the refused channel.
    limit: Option<usize>,
}

/// A subscription that has not been acknowledged yet.
#[derive(Debug)]
struct Waiting {
    watch: Watch,
    answer: oneshot::Sender<Result<(), BackendError>>,
}

/// A factory and the name that it watches.
pub(super) type Watch = (SubscriberId, LockName);

/// The next request to the server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) subscribe: Vec<String>,
    pub(super) unsubscribe: Vec<String>,
}

impl SubscriptionState {
    /// Adds the channel of a name. The reply arrives once the server has acknowledged it or the
    /// subscription has failed.
    ///
    /// # Errors
    /// Returns the earlier error if the server refused the channel recently. Nothing is added.
    pub(super) fn want(&mut self, channel: String, watch: Watch) -> Result<Acknowledgement, BackendError> {
        let (answer, acknowledgement) = oneshot::channel();
        let name = watch.1.clone();
        if self.standing.contains(&channel) {
            self.unwanted.remove(&channel);
            let _ = answer.send(Ok(()));
        } else if let Some((_, error)) =
            self.refused.get(&channel).filter(|(until, _)| *until > Instant::now())
        {
            return Err(error.clone());
        } else {
            self.missing.insert(channel.clone());
            self.waiting.entry(channel.clone()).or_default().push(Waiting { watch, answer });
        }
        self.wanted.entry(channel).or_default().insert(name);
        Ok(acknowledgement)
    }

    pub(super) fn unwant(&mut self, channel: &str, name: &LockName) {
        let Some(names) = self.wanted.get_mut(channel) else { return };
        names.remove(name);
        if names.is_empty() {
            self.wanted.remove(channel);
            self.waiting.remove(channel);
            self.missing.remove(channel);
            if self.standing.contains(channel) {
                self.unwanted.insert(channel.to_owned());
            }
        }
    }

    /// Adds the channel of a lock whose subscription was on another server. No caller waits for the
    /// reply, so a failure does not end the subscription.
    pub(super) fn adopt(&mut self, channel: String, name: LockName) {
        self.refused.remove(&channel);
        if !self.unwanted.remove(&channel) && !self.standing.contains(&channel) {
            self.missing.insert(channel.clone());
        }
        self.adopted |= !self.standing.contains(&channel);
        self.wanted.entry(channel).or_default().insert(name);
    }

    /// Returns `true` if names were adopted since the last call. Their wake-ups may have been missed.
    pub(super) fn take_adopted(&mut self) -> bool {
        std::mem::take(&mut self.adopted)
    }

    /// Removes the channel of a name that now belongs to another server, which ended the subscription.
    pub(super) fn give_up(&mut self, channel: &str, name: &LockName) {
        let Some(names) = self.wanted.get_mut(channel) else { return };
        names.remove(name);
        if names.is_empty() {
            self.wanted.remove(channel);
            for set in [&mut self.missing, &mut self.standing, &mut self.unwanted] {
                set.remove(channel);
            }
            for Waiting { answer, .. } in self.waiting.remove(channel).unwrap_or_default() {
                let _ = answer.send(Err(error::unserved("subscribe").into()));
            }
        }
    }

    /// Returns the names whose release is announced by a message on this channel.
    pub(super) fn names(&self, channel: &str) -> Vec<LockName> {
        self.wanted.get(channel).into_iter().flatten().cloned().collect()
    }

    /// Returns the next request. A channel that the batch unsubscribes from no longer counts as acknowledged: if it is
    /// desired again in the meantime, a later batch subscribes to it.
    pub(super) fn next_batch(&mut self) -> Batch {
        let now = Instant::now();
        for (channel, _) in self.refused.extract_if(|_, (until, _)| *until <= now) {
            if self.wanted.contains_key(&channel) {
                self.missing.insert(channel);
            }
        }
        let subscribe: Vec<_> =
            self.missing.iter().take(self.limit.unwrap_or(MAX_CHANNELS)).cloned().collect();
        if subscribe.is_empty() {
            self.limit = None;
        }
        let unsubscribe: Vec<_> = self.unwanted.iter().take(MAX_CHANNELS).cloned().collect();
        for channel in &unsubscribe {
            self.unwanted.remove(channel);
            self.standing.remove(channel);
        }
        Batch { subscribe, unsubscribe }
    }

    pub(super) fn acknowledged(&mut self, batch: Batch) {
        for channel in batch.subscribe {
            for Waiting { answer, .. } in self.waiting.remove(&channel).unwrap_or_default() {
                let _ = answer.send(Ok(()));
            }
            self.missing.remove(&channel);
            if !self.wanted.contains_key(&channel) {
                self.unwanted.insert(channel.clone());
            }
            self.standing.insert(channel);
        }
    }

    /// Handles a batch that the server did not accept. Fails the subscriptions waiting for it and returns them, since
    /// they have ended. Earlier subscribers still want the channel.
    pub(super) fn failed(&mut self, batch: Batch, error: &RequestError) -> Vec<Watch> {
        let refused = !error.is_retryable() && error.redirection().is_none();
        let mut over = Vec::new();
        if refused && batch.subscribe.len() > 1 {
            self.limit = Some(batch.subscribe.len() / 2);
            return over;
        }
        let error = BackendError::from(error.clone());
        for channel in batch.subscribe {
            for Waiting { watch, answer } in self.waiting.remove(&channel).unwrap_or_default() {
                let _ = answer.send(Err(error.clone()));
                over.push(watch);
            }
            if refused {
                self.limit = None;
                self.missing.remove(&channel);
                self.refused.insert(channel, (Instant::now() + REFUSED_RETRY_AFTER, error.clone()));
            }
        }
        over
    }

    /// Resets the state for a new connection, which has no subscriptions.
    pub(super) fn start_over(&mut self) {
        self.standing.clear();
        self.unwanted.clear();
        self.missing =
            self.wanted.keys().filter(|channel| !self.refused.contains_key(*channel)).cloned().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("valid name")
    }

    /// Subscribes one factory to a name over this channel.
    fn want(state: &mut SubscriptionState, channel: &str, text: &str) -> Acknowledgement {
        state.want(channel.to_owned(), (SubscriberId::new(1), name(text))).expect("accepted before")
    }

    fn subscribe(batch: &Batch) -> Vec<&str> {
        let mut channels: Vec<_> = batch.subscribe.iter().map(String::as_str).collect();
        channels.sort_unstable();
        channels
    }

    fn answered(acknowledgement: &mut Acknowledgement) -> Option<bool> {
        acknowledgement.try_recv().ok().map(|answer| answer.is_ok())
    }

    fn denied() -> RequestError {
        error::server_error("subscribe", "NOPERM no")
    }

    #[test]
    fn simultaneous_watches_are_one_batch() {
        let mut state = SubscriptionState::default();
        let (mut a, mut b) = (want(&mut state, "a", "a"), want(&mut state, "b", "b"));
        let batch = state.next_batch();
        assert_eq!(subscribe(&batch), ["a", "b"]);
        state.acknowledged(batch);
        assert_eq!((answered(&mut a), answered(&mut b)), (Some(true), Some(true)));
        assert_eq!(answered(&mut want(&mut state, "a", "a")), Some(true), "already subscribed");
        assert_eq!(state.next_batch(), Batch::default());
    }

    #[test]
    fn shared_channel_ends_with_its_last_name() {
        let mut state = SubscriptionState::default();
        let _answer = (want(&mut state, "c", "a"), want(&mut state, "c", "{a}"));
        let batch = state.next_batch();
        state.acknowledged(batch);
        assert_eq!(state.names("c").len(), 2);
        state.unwant("c", &name("{a}"));
        assert_eq!(state.names("c"), [name("a")]);
        assert_eq!(state.next_batch(), Batch::default());
        state.unwant("c", &name("a"));
        assert_eq!(state.next_batch().unsubscribe, ["c"]);
    }

    #[test]
    fn channel_wanted_again_is_subscribed_to_again() {
        let mut state = SubscriptionState::default();
        let _answer = want(&mut state, "a", "a");
        let batch = state.next_batch();
        state.acknowledged(batch);
        state.unwant("a", &name("a"));
        let giving_up = state.next_batch();
        let mut again = want(&mut state, "a", "a");
        state.acknowledged(giving_up);
        assert_eq!(answered(&mut again), None, "the old subscription is being ended");
        let batch = state.next_batch();
        assert_eq!(subscribe(&batch), ["a"]);
        state.acknowledged(batch);
        assert_eq!(answered(&mut again), Some(true));
    }

    #[test]
    fn refused_channel_is_found_by_bisection() {
        let mut state = SubscriptionState::default();
        let names: Vec<_> = (0..40).map(|number| format!("c{number}")).collect();
        let mut answers: Vec<_> = names.iter().map(|text| want(&mut state, text, text)).collect();
        let mut batches = 0;
        loop {
            let batch = state.next_batch();
            if batch == Batch::default() {
                break;
            }
            batches += 1;
            assert!(batches < 150, "found by bisection");
            match batch.subscribe.iter().any(|channel| channel == "c7") {
                true => {
                    for (_, name) in state.failed(batch, &denied()) {
                        state.unwant(name.as_str(), &name);
                    }
                    state.start_over();
                }
                false => state.acknowledged(batch),
            }
        }
        for (number, answer) in answers.iter_mut().enumerate() {
            assert_eq!(answered(answer), Some(number != 7), "{number}");
        }
        assert!(names.iter().all(|name| name == "c7" || state.standing.contains(name)));
        let again = state.want("c7".into(), (SubscriberId::new(1), name("c7")));
        assert!(again.is_err(), "a second subscription must get the recent reply");
        assert_eq!(
            state.next_batch(),
            Batch::default(),
            "the other subscriptions must keep their connection"
        );
        state.refused.values_mut().for_each(|(until, _)| *until = Instant::now());
        let _answer = want(&mut state, "c7", "c7");
        assert_eq!(state.next_batch().subscribe, ["c7"], "permissions may have been granted");
    }

    #[test]
    fn failed_batch_is_tried_again() {
        let mut state = SubscriptionState::default();
        let mut answer = want(&mut state, "a", "a");
        let batch = state.next_batch();
        let down = error::Unanswered::ConnectionLost.during("subscribe");
        assert_eq!(
            state.failed(batch, &down),
            [(SubscriberId::new(1), name("a"))],
            "the subscription must end"
        );
        assert_eq!(answered(&mut answer), Some(false));
        assert_eq!(subscribe(&state.next_batch()), ["a"]);
        let batch = state.next_batch();
        state.acknowledged(batch);
        state.start_over();
        assert_eq!(subscribe(&state.next_batch()), ["a"], "another connection");
    }
}
