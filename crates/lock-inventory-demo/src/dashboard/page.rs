//! Rendering of the page, a single file that embeds the latest snapshot so that the first paint is complete.

use axum::{
    http::header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
    response::IntoResponse,
};
use uuid::Uuid;

const PAGE: &str = include_str!("page.html");

/// Returns the page with `snapshot` (JSON) embedded. The content security policy allows only the
/// page's own script and no other host.
pub(super) fn render(snapshot: &str) -> impl IntoResponse + use<> {
    let nonce = Uuid::new_v4().simple().to_string();
    // Only `</` and `<!--` could end the script element, so escape `<` in the JSON.
    let body = PAGE.replace("{{nonce}}", &nonce).replace("{{snapshot}}", &snapshot.replace('<', "\\u003c"));
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
    (headers, body)
}
