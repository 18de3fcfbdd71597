//! The connections to the servers of a cluster, one of which is in use.

use crate::{
    error::{failed, is_unconnected},
    place::Place,
    wire::{AuthenticateRequest, AuthenticateResponse},
};
use futures_util::Stream;
use http::uri::PathAndQuery;
use lock_core::{__private::lock, LockError, backend::BackendError};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

const CONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// A connection that has not answered to a ping for this long is closed.
const PING_EVERY: Duration = Duration::from_secs(5);
const PONG_WITHIN: Duration = Duration::from_secs(3);

pub(crate) struct Client {
    servers: Vec<Channel>,
    /// The number of the server in use, modulo their number.
    current: AtomicUsize,
    login: Option<(String, String)>,
    /// The answer to the login; a cluster without users gives no token.
    token: Mutex<Option<Token>>,
}

type Token = Option<MetadataValue<Ascii>>;

impl Client {
    /// Creates a client, which connects when it is used. Must be called in the runtime of its connections.
    pub(crate) fn new(place: &Place) -> Result<Self, LockError> {
        let servers = place.servers.iter().map(|server| {
            let endpoint = Endpoint::from_shared(server.clone()).map_err(|_| unusable())?;
            let endpoint = endpoint
                .connect_timeout(CONNECTS_WITHIN)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PONG_WITHIN)
                .keep_alive_while_idle(true);
            Ok(with_tls(endpoint, place)?.connect_lazy())
        });
        Ok(Self {
            servers: servers.collect::<Result<_, LockError>>()?,
            current: AtomicUsize::new(0),
            login: place.login.clone(),
            token: Mutex::default(),
        })
    }

    /// Sends a message, and returns the answer. A server that fails, or whose answer is no longer awaited, is followed by
    /// the next one.
    pub(crate) async fn call<Q, R>(&self, path: &'static str, message: Q) -> Result<R, Status>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let (mut has_token, mut unconnected) = (true, 0);
        loop {
            let (mut server, turn) = self.server().await?;
            let request = self.request(message.clone()).await?;
            let codec = ProstCodec::<Q, R>::default();
            match server.unary(request, PathAndQuery::from_static(path), codec).await {
                // Nothing was sent.
                Err(status) if is_unconnected(&status) && unconnected + 1 < self.servers.len() => {
                    unconnected += 1;
                    turn.ended(status);
                }
                // The token ends after some minutes, and with a change of users.
                Err(status) if has_token && self.login.is_some() && is_old_token(&status) => {
                    has_token = false;
                    *lock(&self.token) = None;
                    turn.keep();
                }
                Err(status) => return Err(turn.ended(status)),
                Ok(response) => {
                    turn.keep();
                    return Ok(response.into_inner());
                }
            }
        }
    }

    /// Opens a stream in both directions.
    pub(crate) async fn stream<Q, R>(
        &self,
        path: &'static str,
        messages: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<R>, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let (mut server, turn) = self.server().await?;
        let request = self.request(messages).await?;
        let codec = ProstCodec::<Q, R>::default();
        match server.streaming(request, PathAndQuery::from_static(path), codec).await {
            Ok(response) => {
                turn.keep();
                Ok(response.into_inner())
            }
            Err(status) => {
                if is_old_token(&status) {
                    *lock(&self.token) = None;
                }
                Err(turn.ended(status))
            }
        }
    }

    /// Logs in again for the next request.
    pub(crate) fn forget_login(&self) {
        *lock(&self.token) = None;
    }

    /// Uses the next server from now on, if this one is still in use.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn { client: self, number: self.current.load(Ordering::Relaxed), is_kept: false }
    }

    async fn server(&self) -> Result<(Grpc<Channel>, Turn<'_>), Status> {
        let turn = self.turn();
        let mut server = Grpc::new(self.servers[turn.number % self.servers.len()].clone());
        match server.ready().await {
            Ok(()) => Ok((server, turn)),
            Err(error) => Err(Status::unavailable(format!("the server is not reached: {error}"))),
        }
    }

    /// Adds the login. A server that has lost its leader refuses the request.
    async fn request<M>(&self, message: M) -> Result<Request<M>, Status> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some((name, password)) = &self.login {
            let known = lock(&self.token).clone();
            let token = match known {
                Some(token) => token,
                None => self.log_in(name.clone(), password.clone()).await?,
            };
            if let Some(token) = token {
                request.metadata_mut().insert("authorization", token);
            }
        }
        Ok(request)
    }

    async fn log_in(&self, name: String, password: String) -> Result<Token, Status> {
        let (mut server, turn) = self.server().await?;
        let codec = ProstCodec::<AuthenticateRequest, AuthenticateResponse>::default();
        let path = PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
        let request = Request::new(AuthenticateRequest { name, password });
        let token = match server.unary(request, path, codec).await {
            Ok(answer) => {
                let token = answer.into_inner().token.parse();
                Some(token.map_err(|_| Status::internal("the token is not printable"))?)
            }
            // A cluster without users accepts everybody.
            Err(status) if status.message().contains("authentication is not enabled") => None,
            Err(status) => return Err(turn.ended(status)),
        };
        turn.keep();
        *lock(&self.token) = Some(token.clone());
        Ok(token)
    }
}

/// The use of a server for a request. Unless it is kept, the next request uses the next server.
pub(crate) struct Turn<'c> {
    client: &'c Client,
    number: usize,
    is_kept: bool,
}

impl Turn<'_> {
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Keeps the server if the error is its answer, and returns the error.
    fn ended(mut self, status: Status) -> Status {
        self.is_kept = !matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::DeadlineExceeded | Code::Cancelled | Code::Internal
        );
        status
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let next = self.number.wrapping_add(1);
            // Another request may have noticed as well.
            let _ =
                self.client.current.compare_exchange(self.number, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

fn is_old_token(status: &Status) -> bool {
    let says = |text| status.message().contains(text);
    // Without a token, if users were added since the login.
    status.code() == Code::Unauthenticated || says("auth: revision") || says("user name is empty")
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc-rs"))]
fn with_tls(endpoint: Endpoint, place: &Place) -> Result<Endpoint, LockError> {
    use tonic::transport::{Certificate, ClientTlsConfig};
    if !place.has_tls {
        return Ok(endpoint);
    }
    let config = match &place.ca {
        Some(file) => {
            let pem = std::fs::read(file).map_err(|error| {
                LockError::invalid_url(format!("the file of `ca` cannot be read: {error}"))
            })?;
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
        None => ClientTlsConfig::new().with_native_roots(),
    };
    endpoint
        .tls_config(config)
        .map_err(|_| LockError::invalid_url("the file of `ca` is no certificate in PEM"))
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc-rs")))]
fn with_tls(endpoint: Endpoint, place: &Place) -> Result<Endpoint, LockError> {
    match place.has_tls || place.ca.is_some() {
        true => Err(LockError::invalid_url(
            "TLS is not built in: enable the feature `tls-ring` or `tls-aws-lc-rs`",
        )),
        false => Ok(endpoint),
    }
}

fn unusable() -> LockError {
    LockError::invalid_url("a host of the URL cannot be used: write it as `etcd://host1:2379,host2`")
}

/// Names what has failed.
pub(crate) trait Named<T> {
    fn named(self, what: &str) -> Result<T, BackendError>;
}

impl<T> Named<T> for Result<T, Status> {
    fn named(self, what: &str) -> Result<T, BackendError> {
        self.map_err(|status| failed(what, status))
    }
}
