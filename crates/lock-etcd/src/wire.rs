//! The messages of etcd's API that locks need, with the fields that they use.
//!
//! Source: `etcdserverpb/rpc.proto` and `mvccpb/kv.proto` of etcd 3.4 to 3.6. Written by hand, so that a build needs no
//! `protoc`.

use prost::{Message, Oneof};

/// The state of the cluster when it answered.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    /// The number of changes of the whole store so far.
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
    /// The term of the leader that the answering server knows.
    #[prost(uint64, tag = "4")]
    pub(crate) raft_term: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The revision of the last change of the key.
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    /// The lease that deletes the key when it ends.
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The end of the range, if it is more than one key.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
}

/// The answer to a put or a deletion, of which locks need nothing.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Changed {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(crate) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(Changed),
    #[prost(message, tag = "3")]
    Delete(Changed),
}

/// A condition of a transaction: a property of a key equals a value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    /// The property: 1 the revision of its creation, 2 of its last change, 3 the value, 4 the lease.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "Target", tags = "5, 6, 7, 8")]
    pub(crate) equals: Option<Target>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Target {
    #[prost(int64, tag = "5")]
    Created(i64),
    #[prost(int64, tag = "6")]
    Changed(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
    #[prost(int64, tag = "8")]
    Lease(i64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    /// Executed if all conditions hold.
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    /// Executed otherwise.
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
}

/// The answer to a grant or a renewal of a lease.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    /// In seconds; 0 if there is no such lease.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

/// Renews or revokes a lease.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseId {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchChange", tags = "1, 2")]
    pub(crate) request: Option<WatchChange>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchChange {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The kinds of events that are left out.
    #[prost(int32, repeated, tag = "5")]
    pub(crate) filters: Vec<i32>,
    #[prost(int64, tag = "7")]
    pub(crate) watch_id: i64,
}

/// No puts: only deletions are reported.
pub(crate) const NO_PUT: i32 = 0;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(crate) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(int64, tag = "2")]
    pub(crate) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

impl From<Request> for RequestOp {
    fn from(request: Request) -> Self {
        Self { request: Some(request) }
    }
}

/// Reads a key.
pub(crate) fn get(key: &[u8]) -> RequestOp {
    Request::Range(RangeRequest { key: key.to_vec(), ..RangeRequest::default() }).into()
}

/// Writes a key that is deleted with a lease.
pub(crate) fn put(key: &[u8], value: impl Into<Vec<u8>>, lease: i64) -> RequestOp {
    Request::Put(PutRequest { key: key.to_vec(), value: value.into(), lease }).into()
}

pub(crate) fn delete(key: &[u8]) -> RequestOp {
    Request::Delete(DeleteRangeRequest { key: key.to_vec() }).into()
}

pub(crate) fn is(key: &[u8], equals: Target) -> Compare {
    let target = match equals {
        Target::Created(_) => 1,
        Target::Changed(_) => 2,
        Target::Value(_) => 3,
        Target::Lease(_) => 4,
    };
    Compare { target, key: key.to_vec(), equals: Some(equals) }
}

impl TxnResponse {
    /// Returns the key that the read at this place has found.
    pub(crate) fn kv(&self, place: usize) -> Option<&KeyValue> {
        self.kvs(place).first()
    }

    /// Returns the keys that the read at this place has found.
    pub(crate) fn kvs(&self, place: usize) -> &[KeyValue] {
        match self.responses.get(place).and_then(|response| response.response.as_ref()) {
            Some(Response::Range(range)) => &range.kvs,
            _ => &[],
        }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }

    pub(crate) fn term(&self) -> u64 {
        self.header.as_ref().map_or(0, |header| header.raft_term)
    }
}
