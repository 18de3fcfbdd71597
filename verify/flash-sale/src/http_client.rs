//! An HTTP/1 client that reuses its connections to one server. Its errors report whether the request
//! may have been delivered.

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::HOST};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Body, Incoming},
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use std::{
    error::Error,
    fmt, io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};
use tokio::net::TcpStream;

type Cause = Box<dyn Error + Send + Sync>;

/// A client for one server.
pub struct HttpClient<B> {
    server: SocketAddr,
    connections: Mutex<Vec<SendRequest<B>>>,
}

/// A failed exchange.
#[derive(Debug, thiserror::Error)]
pub enum SendError<B> {
    /// No part of the request reached the server, so it can be sent to another server.
    #[error("could not reach the server")]
    NotSent {
        /// The undelivered request.
        request: Box<Request<B>>,
        /// Underlying error.
        source: io::Error,
    },
    /// The connection failed after part of the request was sent. The server may have processed it.
    #[error("the connection ended before the response")]
    Lost(#[source] hyper::Error),
}

/// A request without a successful response.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// There is no response.
    #[error(transparent)]
    Send(#[from] SendError<Full<Bytes>>),
    /// The connection failed during the response.
    #[error("the connection ended within the response")]
    Response(#[from] hyper::Error),
    /// The response is not successful.
    #[error("{status} {body}")]
    Refused {
        /// Status of the response.
        status: StatusCode,
        /// Body of the response.
        body: String,
    },
}

impl<B> HttpClient<B>
where
    B: Body<Data: Send, Error: Into<Cause>> + Send + 'static,
{
    /// Creates a client for `server` without connecting.
    #[must_use]
    pub fn new(server: SocketAddr) -> Self {
        Self { server, connections: Mutex::default() }
    }

    /// Returns the server's address.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Sends `request`, whose URI is a path, over an idle or new connection. Returns the response
    /// head.
    ///
    /// # Errors
    /// Returns [`SendError`], which reports whether the request may have been delivered.
    ///
    /// # Cancel safety
    /// Dropping this closes the connection. The server may have executed the request.
    pub async fn send(&self, mut request: Request<B>) -> Result<Response<Incoming>, SendError<B>> {
        if !request.headers().contains_key(HOST)
            && let Ok(host) = HeaderValue::try_from(self.server.to_string())
        {
            request.headers_mut().insert(HOST, host);
        }
        loop {
            let idle = self.idle();
            let is_new = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => match self.dial().await {
                    Ok(connection) => connection,
                    Err(source) => return Err(SendError::NotSent { request: Box::new(request), source }),
                },
            };
            let mut error = match connection.try_send_request(request).await {
                Ok(response) => {
                    self.with(|connections| connections.push(connection));
                    return Ok(response);
                }
                Err(error) => error,
            };
            match error.take_message() {
                // The server closed the connection while it was idle.
                Some(unsent) if !is_new => request = unsent,
                Some(unsent) => {
                    let source = io::Error::other(error.into_error());
                    return Err(SendError::NotSent { request: Box::new(unsent), source });
                }
                None => return Err(SendError::Lost(error.into_error())),
            }
        }
    }

    /// Takes a connection whose last response was read completely.
    fn idle(&self) -> Option<SendRequest<B>> {
        self.with(|connections| {
            connections.retain(|connection| !connection.is_closed());
            let idle = connections.iter().rposition(SendRequest::is_ready)?;
            Some(connections.swap_remove(idle))
        })
    }

    async fn dial(&self) -> io::Result<SendRequest<B>> {
        let stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // The task ends when the server closes the connection, or when the sender is dropped and
        // its response has been read.
        tokio::spawn(connection);
        sender.ready().await.map_err(io::Error::other)?;
        Ok(sender)
    }

    fn with<R>(&self, f: impl FnOnce(&mut Vec<SendRequest<B>>) -> R) -> R {
        f(&mut self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpClient<Full<Bytes>> {
    /// Sends `request`, whose URI is a path, and returns the body of its response.
    ///
    /// # Errors
    /// Returns [`ExchangeError`] if there is no response, or if it is not successful.
    ///
    /// # Cancel safety
    /// Like [`send`](Self::send).
    pub async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Bytes, ExchangeError> {
        let (head, body) = self.send(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        match head.status.is_success() {
            true => Ok(body),
            false => {
                let body = String::from_utf8_lossy(&body).into_owned();
                Err(ExchangeError::Refused { status: head.status, body })
            }
        }
    }
}

impl<B> fmt::Debug for HttpClient<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("server", &self.server).finish_non_exhaustive()
    }
}
