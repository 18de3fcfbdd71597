//! What is wanted of the subscriber's connection, what stands there, and who waits for the difference.

use lock_core::{BackendError, LockName, backend::SubscriberId};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// How many channels one round names.
const CHANNELS: usize = 1_000;
/// How long a channel that the server refused is left alone: rights may come back, but asking costs all other names their
/// connection.
const LEFT_ALONE: Duration = Duration::from_secs(60);

pub(super) type Told = oneshot::Receiver<Result<(), BackendError>>;

/// The channels of all names that somebody of this process waits for. Every step costs what it changes, however many
/// there are.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// By channel; `a` and `{a}` have the same.
    wanted: HashMap<String, HashSet<LockName>>,
    /// What the server has acknowledged on the present connection.
    standing: HashSet<String>,
    /// Wanted, not standing, not refused just now.
    missing: HashSet<String>,
    /// Standing, not wanted.
    useless: HashSet<String>,
    /// What the server refused, until when it is left alone, and what it said.
    refused: HashMap<String, (Instant, BackendError)>,
    /// By channel.
    waiting: HashMap<String, Vec<Waiting>>,
    /// When it refused some channel of a round: how many the next round may name, to find out which.
    most: Option<usize>,
}

/// A watch that is not acknowledged yet.
#[derive(Debug)]
struct Waiting {
    watch: Watch,
    tell: oneshot::Sender<Result<(), BackendError>>,
}

/// Which factory watches which name.
pub(super) type Watch = (SubscriberId, LockName);

/// What to say to the server next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) subscribe: Vec<String>,
    pub(super) unsubscribe: Vec<String>,
}

impl Desk {
    /// Wants the channel of a name; the answer comes when the server has acknowledged it, or when that failed.
    ///
    /// # Errors
    /// The server refused the channel just now. Nothing is wanted.
    pub(super) fn want(&mut self, channel: String, watch: Watch) -> Result<Told, BackendError> {
        let (tell, told) = oneshot::channel();
        let name = watch.1.clone();
        if self.standing.contains(&channel) {
            self.useless.remove(&channel);
            let _ = tell.send(Ok(()));
        } else if let Some((_, said)) =
            self.refused.get(&channel).filter(|(until, _)| *until > Instant::now())
        {
            return Err(said.clone());
        } else {
            self.missing.insert(channel.clone());
            self.waiting.entry(channel.clone()).or_default().push(Waiting { watch, tell });
        }
        self.wanted.entry(channel).or_default().insert(name);
        Ok(told)
    }

    pub(super) fn unwant(&mut self, channel: &str, name: &LockName) {
        let Some(names) = self.wanted.get_mut(channel) else { return };
        names.remove(name);
        if names.is_empty() {
            self.wanted.remove(channel);
            self.waiting.remove(channel);
            self.missing.remove(channel);
            if self.standing.contains(channel) {
                self.useless.insert(channel.to_owned());
            }
        }
    }

    /// Whose release a message of this channel tells.
    pub(super) fn names(&self, channel: &str) -> Vec<LockName> {
        self.wanted.get(channel).into_iter().flatten().cloned().collect()
    }

    /// What is still to be said. What is to be given up does not stand any more from here on: whoever wants it
    /// meanwhile has it subscribed to again, behind that.
    pub(super) fn next_round(&mut self) -> Round {
        let now = Instant::now();
        for (channel, _) in self.refused.extract_if(|_, (until, _)| *until <= now) {
            if self.wanted.contains_key(&channel) {
                self.missing.insert(channel);
            }
        }
        let subscribe: Vec<_> = self.missing.iter().take(self.most.unwrap_or(CHANNELS)).cloned().collect();
        if subscribe.is_empty() {
            self.most = None;
        }
        let unsubscribe: Vec<_> = self.useless.iter().take(CHANNELS).cloned().collect();
        for channel in &unsubscribe {
            self.useless.remove(channel);
            self.standing.remove(channel);
        }
        Round { subscribe, unsubscribe }
    }

    pub(super) fn acknowledged(&mut self, round: Round) {
        for channel in round.subscribe {
            for Waiting { tell, .. } in self.waiting.remove(&channel).unwrap_or_default() {
                let _ = tell.send(Ok(()));
            }
            self.missing.remove(&channel);
            if !self.wanted.contains_key(&channel) {
                self.useless.insert(channel.clone());
            }
            self.standing.insert(channel);
        }
    }

    /// The server did not take it. Tells those who wait for it, and returns their watches, which are over; the channel stays
    /// wanted for others who watched it before.
    pub(super) fn failed(&mut self, round: Round, error: &BackendError) -> Vec<Watch> {
        let refused = !error.is_retryable();
        let mut over = Vec::new();
        if refused && round.subscribe.len() > 1 {
            self.most = Some(round.subscribe.len() / 2);
            return over;
        }
        for channel in round.subscribe {
            for Waiting { watch, tell } in self.waiting.remove(&channel).unwrap_or_default() {
                let _ = tell.send(Err(error.clone()));
                over.push(watch);
            }
            if refused {
                self.most = None;
                self.missing.remove(&channel);
                self.refused.insert(channel, (Instant::now() + LEFT_ALONE, error.clone()));
            }
        }
        over
    }

    /// Another connection: nothing stands there.
    pub(super) fn start_over(&mut self) {
        self.standing.clear();
        self.useless.clear();
        self.missing =
            self.wanted.keys().filter(|channel| !self.refused.contains_key(*channel)).cloned().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::{Applied, BackendErrorKind};

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("a good name")
    }

    /// One factory watches a name by this channel.
    fn want(desk: &mut Desk, channel: &str, text: &str) -> Told {
        desk.want(channel.to_owned(), (SubscriberId::new(1), name(text)))
            .expect("it was not refused just now")
    }

    fn subscribe(round: &Round) -> Vec<&str> {
        let mut channels: Vec<_> = round.subscribe.iter().map(String::as_str).collect();
        channels.sort_unstable();
        channels
    }

    fn answered(told: &mut Told) -> Option<bool> {
        told.try_recv().ok().map(|answer| answer.is_ok())
    }

    fn denied() -> BackendError {
        BackendError::new(BackendErrorKind::Denied, Applied::No, "no")
    }

    #[test]
    fn many_that_come_at_once_are_one_round() {
        let mut desk = Desk::default();
        let (mut a, mut b) = (want(&mut desk, "a", "a"), want(&mut desk, "b", "b"));
        let round = desk.next_round();
        assert_eq!(subscribe(&round), ["a", "b"]);
        desk.acknowledged(round);
        assert_eq!((answered(&mut a), answered(&mut b)), (Some(true), Some(true)));
        assert_eq!(answered(&mut want(&mut desk, "a", "a")), Some(true), "it stands already");
        assert_eq!(desk.next_round(), Round::default());
    }

    #[test]
    fn names_that_share_a_channel_are_all_told_and_give_it_up_together() {
        let mut desk = Desk::default();
        let _told = (want(&mut desk, "c", "a"), want(&mut desk, "c", "{a}"));
        let round = desk.next_round();
        desk.acknowledged(round);
        assert_eq!(desk.names("c").len(), 2);
        desk.unwant("c", &name("{a}"));
        assert_eq!(desk.names("c"), [name("a")]);
        assert_eq!(desk.next_round(), Round::default());
        desk.unwant("c", &name("a"));
        assert_eq!(desk.next_round().unsubscribe, ["c"]);
    }

    #[test]
    fn what_is_wanted_again_while_it_is_given_up_is_subscribed_to_again() {
        let mut desk = Desk::default();
        let _told = want(&mut desk, "a", "a");
        let round = desk.next_round();
        desk.acknowledged(round);
        desk.unwant("a", &name("a"));
        let giving_up = desk.next_round();
        let mut again = want(&mut desk, "a", "a");
        desk.acknowledged(giving_up);
        assert_eq!(answered(&mut again), None, "the old one is being given up");
        let round = desk.next_round();
        assert_eq!(subscribe(&round), ["a"]);
        desk.acknowledged(round);
        assert_eq!(answered(&mut again), Some(true));
    }

    #[test]
    fn one_channel_that_is_refused_costs_the_others_nothing() {
        let mut desk = Desk::default();
        let names: Vec<_> = (0..40).map(|number| format!("c{number}")).collect();
        let mut told: Vec<_> = names.iter().map(|text| want(&mut desk, text, text)).collect();
        let mut rounds = 0;
        loop {
            let round = desk.next_round();
            if round == Round::default() {
                break;
            }
            rounds += 1;
            assert!(rounds < 150, "it is found by halves");
            match round.subscribe.iter().any(|channel| channel == "c7") {
                true => {
                    for (_, name) in desk.failed(round, &denied()) {
                        desk.unwant(name.as_str(), &name);
                    }
                    desk.start_over();
                }
                false => desk.acknowledged(round),
            }
        }
        for (number, told) in told.iter_mut().enumerate() {
            assert_eq!(answered(told), Some(number != 7), "{number}");
        }
        assert!(names.iter().all(|name| name == "c7" || desk.standing.contains(name)));
        let again = desk.want("c7".into(), (SubscriberId::new(1), name("c7")));
        assert!(again.is_err(), "a second watch gets the answer of a moment ago");
        assert_eq!(desk.next_round(), Round::default(), "and the others keep their connection");
        desk.refused.values_mut().for_each(|(until, _)| *until = Instant::now());
        let _told = want(&mut desk, "c7", "c7");
        assert_eq!(desk.next_round().subscribe, ["c7"], "rights may have come back");
    }

    #[test]
    fn what_fails_for_a_while_is_tried_again() {
        let mut desk = Desk::default();
        let mut told = want(&mut desk, "a", "a");
        let round = desk.next_round();
        let down = BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, "down");
        assert_eq!(desk.failed(round, &down), [(SubscriberId::new(1), name("a"))], "this watch is over");
        assert_eq!(answered(&mut told), Some(false));
        assert_eq!(subscribe(&desk.next_round()), ["a"]);
        let round = desk.next_round();
        desk.acknowledged(round);
        desk.start_over();
        assert_eq!(subscribe(&desk.next_round()), ["a"], "another connection");
    }
}
