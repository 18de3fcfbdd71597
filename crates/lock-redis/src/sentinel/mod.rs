//! The sentinels of a master: its current address, and announcements of a new master.
//!
//! All sentinels are queried concurrently, each over a separate connection. A master named by the
//! majority is accepted immediately. Otherwise the remaining replies are awaited, so a sentinel
//! that was disconnected from its peers cannot lead back to an old master.

mod follow;

pub(crate) use follow::Follower;

use crate::{
    client::{
        CallError, Client, Command, Connection, Credentials, DialError, Endpoint, Events, Reply, Secrets,
        Server,
    },
    error::{self, NoMaster},
    url::SentinelAddress,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::backend::BackendError;
use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{SetOnce, watch},
    time::{Instant, sleep_until, timeout},
};

/// The time within which other sentinels can contradict those that have already replied.
const CONTRADICTION: Duration = Duration::from_millis(500);

/// The sentinels of one master.
pub(crate) struct Sentinels<C> {
    client: Arc<C>,
    address: SentinelAddress,
    /// The time limit for each query.
    limit: Duration,
    next: AtomicUsize,
    /// The master last seen by the follower.
    latest: watch::Sender<Option<Server>>,
}

/// One sentinel's reply.
enum Answer {
    Master(Server),
    /// The sentinel does not monitor a master with this name.
    Unknown,
}

impl<C: Client> Sentinels<C> {
    pub(crate) fn new(client: Arc<C>, address: SentinelAddress, limit: Duration) -> Self {
        Self { client, address, limit, next: AtomicUsize::new(0), latest: watch::channel(None).0 }
    }

    /// Returns the login for the sentinels.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.address.credentials
    }

    /// Queries the sentinels for the master.
    pub(crate) async fn master(&self) -> Result<Endpoint, BackendError> {
        let sentinels = &self.address.sentinels;
        let mut answers: FuturesUnordered<_> =
            sentinels.iter().map(|sentinel| async move { (sentinel, self.ask(sentinel).await) }).collect();
        let until = Instant::now() + CONTRADICTION;
        let (mut named, mut failed) = (Vec::<(Server, usize)>::new(), Vec::new());
        loop {
            tokio::select! {
                biased;
                answer = answers.next() => match answer {
                    Some((_, Ok(Answer::Master(server)))) => {
                        let votes = match named.iter_mut().find(|(other, _)| *other == server) {
                            Some((_, votes)) => {
                                *votes += 1;
                                *votes
                            }
                            None => {
                                named.push((server.clone(), 1));
                                1
                            }
                        };
                        if 2 * votes > sentinels.len() {
                            return Ok(self.endpoint(server));
                        }
                    }
                    Some((sentinel, Ok(Answer::Unknown))) => failed.push((sentinel, NoMaster::Unknown)),
                    Some((sentinel, Err(why))) => failed.push((sentinel, why)),
                    None => break,
                },
                () = sleep_until(until), if !named.is_empty() => break,
            }
        }
        match named.into_iter().max_by_key(|(_, votes)| *votes) {
            Some((server, _)) => Ok(self.endpoint(server)),
            None => Err(error::no_master(&self.address.master, self.client.is_secured(), &failed)),
        }
    }

    /// Returns once the follower detects that the sentinels name another master. Otherwise a dial
    /// to a master that hangs would use up its whole time limit.
    pub(crate) async fn leave(&self, master: &Server) {
        let mut latest = self.latest.subscribe();
        loop {
            if latest.changed().await.is_err() {
                return std::future::pending().await;
            }
            if latest.borrow_and_update().as_ref().is_some_and(|latest| latest != master) {
                return;
            }
        }
    }

    /// Publishes the master to the dials in progress.
    fn saw(&self, master: &Server) {
        self.latest.send_if_modified(|latest| {
            let is_new = latest.as_ref() != Some(master);
            *latest = Some(master.clone());
            is_new
        });
    }

    /// Returns one of the sentinels, in rotation.
    pub(crate) fn some_sentinel(&self) -> Endpoint {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.address.sentinels.len();
        Endpoint { server: self.address.sentinels[turn].clone(), database: None }
    }

    fn endpoint(&self, server: Server) -> Endpoint {
        Endpoint { server, database: self.address.database }
    }

    async fn ask(&self, sentinel: &Server) -> Result<Answer, NoMaster> {
        let secrets = Secrets::of(self.credentials());
        let question = async {
            let events = Events::new(Arc::new(SetOnce::new()), None);
            let endpoint = Endpoint { server: sentinel.clone(), database: None };
            // Boxed, since the future may be large.
            let connection = Box::pin(self.client.dial(&endpoint, self.credentials(), events)).await;
            let connection = connection.map_err(|error| NoMaster::Dial(secrets.hide_in_dial(error)))?;
            let words = ["GET-MASTER-ADDR-BY-NAME".into(), Cow::Owned(self.address.master.clone())];
            let reply = connection.call(Command::new("SENTINEL", words.into())).await;
            reply.map_err(|error| NoMaster::Call(secrets.hide_in_call(error)))
        };
        let silent = || NoMaster::Dial(DialError::silent(self.limit));
        match timeout(self.limit, question).await.map_err(|_| silent())?? {
            Reply::Nil => Ok(Answer::Unknown),
            reply => address(&reply).map(Answer::Master).ok_or_else(|| {
                NoMaster::Call(CallError::Unreadable("the reply is not an address".to_owned()))
            }),
        }
    }
}

/// Decodes the address in a reply: host and port.
fn address(reply: &Reply) -> Option<Server> {
    let Reply::List(parts) = reply else { return None };
    let [host, port] = &parts[..] else { return None };
    Some(Server::Tcp { host: host.text()?.to_owned(), port: u16::try_from(port.integer()?).ok()? })
}
