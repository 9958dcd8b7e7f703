//! The facts about a request for observers of the plugin.

use std::{fmt::Write, net::IpAddr};

use url::Url;

use super::scrub::Scrubber;
use crate::origin;
use shelly_core::{
    error::{Fault, acts_on_terminal},
    limits,
};

/// The facts about a request for observers of the plugin, not for the plugin itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressFacts {
    /// The method of the first hop; empty if the request's method is invalid.
    pub method: String,
    /// The URL of the last hop: scheme, host, port and path, at most [`limits::EGRESS_SHOWN_URL_BYTES`]; without user, query
    /// and credentials. Empty if the request's URL is invalid.
    pub url: String,
    /// The number of redirects followed.
    pub hops: u32,
    /// The name of the credential that was sent last.
    pub credential: Option<String>,
    /// The status from the server on the last hop.
    pub status: Option<u16>,
    /// The address of the server on the last hop, or an address of it that is not granted.
    pub address: Option<IpAddr>,
    /// `true` if the last hop led to a port of this machine on which nothing listens, which does not change within seconds.
    pub nobody_listens: bool,
}

/// The reason why there is no response, with the facts about the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct EgressFailure {
    /// The fault, for the plugin.
    pub fault: Fault,
    /// The facts, for observers.
    pub facts: Box<EgressFacts>,
}

/// Formats a URL for display: without user, query and fragment, with characters that act on a terminal escaped.
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

/// Redacts credentials in the message of a fault.
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
