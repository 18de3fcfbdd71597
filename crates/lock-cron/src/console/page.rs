//! The page: one file without a build step, which loads nothing from another host.

use axum::{
    http::header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
    response::IntoResponse,
};
use lock_core::backend::ProcessId;

const PAGE: &str = include_str!("page.html");

/// Returns the page. Its content security policy lets the browser contact no other host and run only this page's
/// script.
pub(super) async fn page() -> impl IntoResponse {
    let nonce = ProcessId::random().as_uuid().simple().to_string();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, "no-store".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, PAGE.replace("{{nonce}}", &nonce))
}
