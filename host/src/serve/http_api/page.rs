//! The web page: one file without others, which reads the API with the token from its address.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::{
    digest::Sha256Digest,
    net::http_server::{ServedResponse, bytes_response},
};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/trace-page/dist/trace.html"));

/// The policy for the page: it runs and styles itself with what is in it, reads this server, and nothing else.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = policy(PAGE);
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// Returns the page.
pub(super) fn page() -> ServedResponse {
    let mut response = bytes_response(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("content-security-policy"), POLICY.clone());
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    response
}

/// Returns the content security policy of a page: its scripts and styles are allowed by their digests.
fn policy(page: &str) -> String {
    let sources = |element: &str| match digests(page, element) {
        digests if digests.is_empty() => "'none'".to_owned(),
        digests => digests.join(" "),
    };
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; font-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        sources("script"),
        sources("style"),
    )
}

/// Returns the digests of the contents of all elements of this name, as a policy names them.
fn digests(page: &str, element: &str) -> Vec<String> {
    let (begin, end) = (format!("<{element}"), format!("</{element}>"));
    let mut rest = page;
    let mut found = Vec::new();
    while let Some((_, after)) = rest.split_once(&begin) {
        let Some((attributes, after)) = after.split_once('>') else { break };
        let Some((content, after)) = after.split_once(&end) else { break };
        rest = after;
        // `<style-guide>` is another element.
        if attributes.is_empty() || attributes.starts_with(char::is_whitespace) {
            found.push(format!("'sha256-{}'", STANDARD.encode(Sha256Digest::of(content).0)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_allows_what_is_in_the_page_alone() {
        let page = "<style>a{}</style><script type=\"module\">one()</script><p><script>two()</script>";
        let policy = policy(page);
        let digest = |content: &str| format!("'sha256-{}'", STANDARD.encode(Sha256Digest::of(content).0));
        let scripts = format!("script-src {} {};", digest("one()"), digest("two()"));
        assert!(policy.contains(&scripts) && policy.contains(&format!("style-src {};", digest("a{}"))), "{policy}");
        assert!(super::policy("<p>").contains("script-src 'none'; style-src 'none';"));
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn page_is_answered_with_its_policy() {
        let response = page();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-security-policy"), policy(PAGE));
        assert!(header("content-security-policy").ends_with("frame-ancestors 'none'"));
        assert_eq!((header("cache-control"), header("x-content-type-options")), ("no-store".into(), "nosniff".into()));
    }
}
