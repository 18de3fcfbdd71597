//! An ensemble: its sessions, markers, cards and tokens.

use crate::{
    connection::{Connection, name_of},
    error::{failed, has_ended, is_foreign},
    place::Place,
    wakes::Wakes,
};
use futures_util::future::try_join_all;
use lock_core::{
    __private::lock,
    FencingToken, LockError,
    backend::{Applied, BackendError, BackendErrorKind, ProcessId},
};
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};
use zookeeper_client::{Acls, Client, CreateMode, Error};

pub(crate) type Session = lock_session::Session<()>;

/// The tokens of a transaction. Its first one is its number (zxid) times their number, plus the offset of the store. The upper
/// half of a zxid counts the elections of a leader, so tokens are below 2⁵³ for the first 131,072 of them.
const TOKENS: i64 = 16;
const LAST_TOKEN: i64 = (1 << 53) - 1;

/// The requests under way at a time while names are listed.
const AT_ONCE: usize = 100;

pub(crate) struct Server {
    pub(crate) connection: Arc<Connection>,
    pub(crate) wakes: Wakes,
    /// The data of the root node, which is added to all tokens, as it was last read.
    offset: Mutex<Option<Offset>>,
    /// The greatest number of a transaction that was seen.
    newest: AtomicI64,
}

#[derive(Clone, Copy)]
pub(crate) struct Offset {
    /// The version of the root node.
    pub(crate) version: i32,
    tokens: i64,
}

impl Server {
    pub(crate) fn new(place: Place) -> Result<Self, LockError> {
        let connection = Arc::new(Connection::new(place)?);
        let wakes = Wakes::new(connection.clone());
        Ok(Self { connection, wakes, offset: Mutex::default(), newest: AtomicI64::new(0) })
    }

    /// Begins a session, unless the client has one already, and writes its marker.
    pub(crate) async fn begin_session(&self) -> Result<Session, BackendError> {
        let connection = &self.connection;
        let client = connection.client().await?;
        let began = |error| failed("begin a session", error);
        let (kept, id) = (connection.options(CreateMode::Persistent), client.session_id().0);
        let root = &connection.place.root;
        match client.check_stat(root).await.map_err(began)? {
            // Another program may use it.
            Some(_) => drop(self.read_offset(&client).await?),
            // Parents that are missing belong to everybody.
            None => {
                if let Some((parent, _)) = root.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
                    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
                    client.mkdir(parent, &open).await.map_err(began)?;
                }
            }
        }
        for folder in ["lock", "session", "card"] {
            client.mkdir(&connection.folder(folder), &kept).await.map_err(began)?;
        }
        let ephemeral = connection.options(CreateMode::Ephemeral);
        let marker = match client.create(&connection.marker(id), b"", &ephemeral).await {
            Ok((stat, _)) => stat,
            // It was written by an attempt that was given up.
            Err(Error::NodeExists) => {
                client.set_data(&connection.marker(id), b"", None).await.map_err(began)?
            }
            Err(error) => return Err(began(error)),
        };
        self.newest.fetch_max(marker.mzxid, Ordering::Relaxed);
        Ok(Session { id, marker: marker.version.into(), detail: () })
    }

    /// Returns the client of a session, `None` if that has ended.
    pub(crate) async fn client_of(&self, session: &Session) -> Result<Option<Client>, BackendError> {
        let client = self.connection.client().await?;
        Ok(Some(client).filter(|client| client.session_id().0 == session.id))
    }

    /// Returns the version of a marker, `None` if its session has ended.
    pub(crate) async fn read_marker(
        &self,
        client: &Client,
        session: &Session,
    ) -> Result<Option<i64>, BackendError> {
        match client.check_stat(&self.connection.marker(session.id)).await {
            Ok(stat) => Ok(stat.map(|stat| stat.version.into())),
            Err(error) if has_ended(&error) => Ok(None),
            Err(error) => Err(failed("read the marker of the session", error)),
        }
    }

    pub(crate) async fn write_marker(&self, session: &Session) -> Result<Option<i64>, BackendError> {
        let Some(client) = self.client_of(session).await? else { return Ok(None) };
        match client.set_data(&self.connection.marker(session.id), b"", None).await {
            Ok(stat) => Ok(Some(stat.version.into())),
            Err(Error::NoNode) => Ok(None),
            Err(error) if has_ended(&error) => Ok(None),
            Err(error) => Err(failed("write the marker of the session", error)),
        }
    }

    /// Returns the offset of tokens, as it was last read.
    pub(crate) async fn offset(&self, client: &Client) -> Result<Offset, BackendError> {
        let known = *lock(&self.offset);
        match known {
            Some(offset) => Ok(offset),
            None => self.read_offset(client).await,
        }
    }

    /// Reads the offset again before the next grant.
    pub(crate) fn forget_offset(&self) {
        *lock(&self.offset) = None;
    }

    async fn read_offset(&self, client: &Client) -> Result<Offset, BackendError> {
        let root = &self.connection.place.root;
        let (synced, read) = tokio::join!(client.sync(root), client.get_data(root));
        let (data, stat) = synced.and(read).map_err(|error| failed("read the offset of tokens", error))?;
        let tokens = match data.as_slice() {
            b"" => Some(0),
            data => std::str::from_utf8(data).ok().and_then(|data| data.parse().ok()),
        };
        let offset = Offset { version: stat.version, tokens: tokens.ok_or_else(|| is_foreign(root))? };
        *lock(&self.offset) = Some(offset);
        Ok(offset)
    }

    /// Returns the first and the last token of a grant.
    pub(crate) fn tokens(
        &self,
        zxid: i64,
        offset: Offset,
        reserve: u32,
    ) -> Result<(FencingToken, FencingToken), BackendError> {
        self.newest.fetch_max(zxid, Ordering::Relaxed);
        let first = zxid.checked_mul(TOKENS).and_then(|first| first.checked_add(offset.tokens));
        let first = first.filter(|first| (1..=LAST_TOKEN - TOKENS).contains(first)).ok_or_else(|| {
            let message = "the tokens of this ensemble are used up: move the locks to a new ensemble, with a token floor";
            BackendError::new(BackendErrorKind::Misconfigured, Applied::Unknown, message)
        })?;
        let token = |number: i64| FencingToken::new(number.unsigned_abs());
        Ok((token(first), token(first + i64::from(reserve).min(TOKENS - 1))))
    }

    pub(crate) async fn raise_offset(&self, client: &Client, floor: i64) -> Result<(), BackendError> {
        let root = &self.connection.place.root;
        loop {
            let offset = self.read_offset(client).await?;
            let next = self.newest.load(Ordering::Relaxed).saturating_add(1).saturating_mul(TOKENS);
            if next.saturating_add(offset.tokens) > floor {
                return Ok(());
            }
            let raised = floor.saturating_add(1).saturating_sub(next);
            match client.set_data(root, raised.to_string().as_bytes(), Some(offset.version)).await {
                Ok(_) => self.forget_offset(),
                Err(Error::BadVersion) => {}
                Err(error) => return Err(failed("raise the offset of tokens", error)),
            }
        }
    }

    pub(crate) async fn put_card(&self, process: ProcessId, card: &[u8]) -> Result<(), BackendError> {
        let (path, client) = (self.connection.card(process), self.connection.client().await?);
        let ephemeral = self.connection.options(CreateMode::Ephemeral);
        let written = match client.set_data(&path, card, None).await {
            Err(Error::NoNode) => client.create(&path, card, &ephemeral).await.map(drop),
            other => other.map(drop),
        };
        match written {
            // Another write was faster.
            Err(Error::NodeExists) => Ok(()),
            written => written.map_err(|error| failed("write a card", error)),
        }
    }

    pub(crate) async fn delete_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let client = self.connection.client().await?;
        match client.delete(&self.connection.card(process), None).await {
            Err(Error::NoNode) => Ok(()),
            deleted => deleted.map_err(|error| failed("remove a card", error)),
        }
    }

    pub(crate) async fn get_card(&self, process: ProcessId) -> Result<Option<Vec<u8>>, BackendError> {
        let (path, client) = (self.connection.card(process), self.connection.client().await?);
        let (synced, read) = tokio::join!(client.sync(&path), client.get_data(&path));
        match synced.and(read) {
            Ok((card, _)) => Ok(Some(card)),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(failed("read a card", error)),
        }
    }

    /// Reads the names of held locks that begin with a prefix: at most this many.
    pub(crate) async fn held_names(&self, prefix: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        let (folder, client) = (self.connection.folder("lock"), self.connection.client().await?);
        let (synced, nodes) = tokio::join!(client.sync(&folder), client.list_children(&folder));
        let mut nodes = match synced.and(nodes) {
            Err(Error::NoNode) => Vec::new(),
            nodes => nodes.map_err(|error| failed("list locks", error))?,
        };
        nodes.retain(|node| name_of(node).is_some_and(|name| name.starts_with(prefix)));
        nodes.sort_unstable();
        let mut names = Vec::new();
        for nodes in nodes.chunks(AT_ONCE) {
            let owners = nodes.iter().map(async |node| {
                let owner = client.check_stat(&format!("{folder}/{node}/owner")).await?;
                Ok(owner.and_then(|_| name_of(node)))
            });
            let held: Vec<_> = try_join_all(owners).await.map_err(|error| failed("list locks", error))?;
            names.extend(held.into_iter().flatten().take(limit - names.len()));
            if names.len() == limit {
                break;
            }
        }
        Ok(names)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.connection.place;
        f.debug_struct("Server")
            .field("servers", &place.servers)
            .field("root", &place.root)
            .field("session", &place.session)
            .finish_non_exhaustive()
    }
}
