//! What is told of a request to whoever watches.

use std::{fmt::Write, net::IpAddr};

use url::Url;

use super::scrub::Scrubber;
use crate::{
    error::{Fault, acts_on_terminal},
    limits,
    net::origin,
};

/// What is told of a request to whoever watches the plugin, not to the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressFacts {
    /// The method, at first. Not of a request whose method is none.
    pub method: String,
    /// Where to, on the last hop: scheme, host, port and path, at most [`limits::EGRESS_SHOWN_URL_BYTES`]; no user, no query,
    /// no credential. Empty of what is no URL.
    pub url: String,
    /// Redirects that were followed.
    pub hops: u32,
    /// The name of the credential that was sent last.
    pub credential: Option<String>,
    /// What the server on the last hop answered.
    pub status: Option<u16>,
    /// Where the server on the last hop is, or an address of it that is not granted.
    pub address: Option<IpAddr>,
    /// Whether the last hop led to a port of this machine on which nobody listens: that does not change within seconds.
    pub nobody_listens: bool,
}

/// Why there is no response, and what is told of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct EgressFailure {
    /// For the plugin.
    pub fault: Fault,
    /// For whoever watches.
    pub facts: Box<EgressFacts>,
}

/// A URL as it is shown: without user, query and fragment, and without what acts on a terminal.
pub(super) fn shown(url: &Url, scrubber: &Scrubber) -> String {
    let text = scrubber.text(&format!("{}://{}{}", url.scheme(), origin(url), url.path()));
    let mut shown = String::new();
    for c in text.chars() {
        let before = shown.len();
        if acts_on_terminal(c) {
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
        if shown.len() > limits::EGRESS_SHOWN_URL_BYTES - '…'.len_utf8() {
            shown.truncate(before);
            return shown + "…";
        }
    }
    shown
}

/// The fault with a text that shows no credential.
pub(super) fn scrubbed(mut fault: Fault, scrubber: &Scrubber) -> Fault {
    let (Fault::Invalid { message }
    | Fault::Denied { message }
    | Fault::NotFound { message }
    | Fault::TooLarge { message }
    | Fault::Exhausted { message }
    | Fault::RateLimited { message, .. }
    | Fault::Unavailable { message, .. }
    | Fault::Timeout { message }
    | Fault::Other { message }) = &mut fault;
    *message = scrubber.text(message);
    fault
}
