//! Forwards a request to the first server that accepts it, and returns the response.

use super::Servers;
use crate::http_client::SendError;
use axum::{
    body::Body,
    extract::{ConnectInfo, Request, State},
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
    header::{self, CONNECTION, CONTENT_TYPE, RETRY_AFTER},
    uri::PathAndQuery,
};
use std::net::SocketAddr;

/// The header with the client's address.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub(super) async fn forward(
    State(servers): State<Servers>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    mut request: Request,
) -> Response {
    let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    remove_hop_by_hop(request.headers_mut());
    if let Ok(client) = HeaderValue::try_from(client.ip().to_string()) {
        request.headers_mut().append(FORWARDED_FOR, client);
    }
    for server in servers.in_turn() {
        match server.client.send(request).await {
            Ok(mut response) => {
                server.delivered();
                remove_hop_by_hop(response.headers_mut());
                return response.map(Body::new);
            }
            Err(SendError::NotSent { request: unsent, .. }) => {
                server.refused();
                request = *unsent;
            }
            Err(SendError::Lost(_)) => {
                server.delivered();
                return problem(
                    StatusCode::BAD_GATEWAY,
                    r#"{"type":"urn:problem-type:shop:bad-gateway","title":"Connection to the server was lost","status":502,"detail":"the request may have been executed"}"#,
                );
            }
        }
    }
    let mut response = problem(
        StatusCode::SERVICE_UNAVAILABLE,
        r#"{"type":"urn:problem-type:shop:no-server","title":"No server accepts connections","status":503,"detail":"the request was not delivered"}"#,
    );
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn problem(status: StatusCode, body: &'static str) -> Response {
    (status, [(CONTENT_TYPE, "application/problem+json")], body).into_response()
}

/// Removes the headers that apply to one connection only (RFC 9110, 7.6.1), and those that `Connection` names.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = [
        CONNECTION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    for name in named.into_iter().chain(always) {
        headers.remove(name);
    }
}
