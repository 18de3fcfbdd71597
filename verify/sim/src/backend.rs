//! The backend of a simulated process: every call is a message.

use crate::{
    message::{Answer, Request, failure},
    world::World,
};
use async_trait::async_trait;
use lock_core::{
    LockName,
    backend::{
        AcquireRequest, Acquired, Applied, Backend, BackendError, Capabilities, ForceReleaseRequest,
        ForceReleased, Inspected, ReleaseRequest, Released, RenewRequest, Renewed, Reply, SubscriberId,
        Subscriptions, WakeListener,
    },
    clock::ServerTime,
};
use lock_testkit::planted::PlantedBug;
use std::sync::{Arc, Weak};

#[derive(Debug)]
pub(crate) struct SimBackend {
    pub(crate) world: Arc<World>,
    pub(crate) link: usize,
    pub(crate) bug: Option<PlantedBug>,
}

impl SimBackend {
    async fn ask(&self, request: Request) -> Result<Answer, BackendError> {
        match self.world.send(self.link, request) {
            Ok(answer) => checked(answer),
            Err(coming) => match coming.await {
                Ok(answer) => checked(answer),
                Err(_) => std::future::pending().await,
            },
        }
    }
}

fn checked(answer: Answer) -> Result<Answer, BackendError> {
    match answer {
        Answer::Failed(applied) => Err(failure(applied)),
        answer => Ok(answer),
    }
}

fn nonsense() -> BackendError {
    failure(Applied::Unknown)
}

#[async_trait]
impl Backend for SimBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("sim")
    }

    fn server_now(&self, _: &LockName) -> Option<ServerTime> {
        self.world.with(|state| state.links[self.link].estimate())
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        match self.ask(Request::Acquire(request)).await? {
            Answer::Acquired(reply) => Ok(reply),
            _ => Err(nonsense()),
        }
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        let asked = items.len();
        let answers: Vec<_> = match self.ask(Request::Renew(items)).await {
            Ok(Answer::Renewed(replies)) => replies.into_iter().map(Ok).collect(),
            Ok(_) => (0..asked).map(|_| Err(nonsense())).collect(),
            Err(error) => (0..asked).map(|_| Err(error.clone())).collect(),
        };
        let now = self.world.with(|state| state.links[self.link].estimate()).unwrap_or_default();
        answers.into_iter().map(|answer| PlantedBug::renewed(self.bug, now, answer)).collect()
    }

    async fn release(&self, request: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        if self.bug == Some(PlantedBug::DropsReleases) && request.depth_left == 0 {
            let now = self.server_now(&request.name).unwrap_or_default();
            return Ok(Reply::new(now, Released::Released { listeners: None }));
        }
        let second = (self.bug == Some(PlantedBug::HidesResends)).then(|| request.clone());
        let first = self.ask(Request::Release(request)).await;
        let answer = match second {
            Some(again) if first.is_err() => self.ask(Request::Release(again)).await,
            _ => first,
        };
        match answer? {
            Answer::Released(Reply { now, outcome, .. }) => {
                Ok(Reply::new(now, PlantedBug::released(self.bug, outcome)))
            }
            _ => Err(nonsense()),
        }
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        match self.ask(Request::Inspect(name)).await? {
            Answer::Inspected(reply) => Ok(reply),
            _ => Err(nonsense()),
        }
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        match self.ask(Request::Force(request)).await? {
            Answer::ForceReleased(reply) => Ok(reply),
            _ => Err(nonsense()),
        }
    }
}

#[async_trait]
impl Subscriptions for SimBackend {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.world.with(|state| state.links[self.link].signals = Some(listener));
        SubscriberId::new(self.link as u64)
    }

    async fn subscribe(&self, _: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.ask(Request::Watch(name)).await.map(drop)
    }

    async fn unsubscribe(&self, _: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.ask(Request::Unwatch(name)).await.map(drop)
    }
}
