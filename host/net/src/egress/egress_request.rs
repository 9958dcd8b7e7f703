use std::time::Duration;

use super::{credential::CredentialUse, request_body::EgressRequestBody};
use shelly_core::event::StepSpan;

/// A request of a plugin.
#[derive(Debug, Default)]
pub struct EgressRequest {
    /// The method, in upper case.
    pub method: String,
    /// An absolute `http` or `https` URL without user and password; a fragment is dropped. At most
    /// [`limits::EGRESS_URL_BYTES`].
    ///
    /// [`limits::EGRESS_URL_BYTES`]: shelly_core::limits::EGRESS_URL_BYTES
    pub url: String,
    /// Headers in addition to those of the host. At most [`limits::EGRESS_REQUEST_HEADERS`], and
    /// [`limits::EGRESS_REQUEST_HEADER_BYTES`].
    ///
    /// [`limits::EGRESS_REQUEST_HEADERS`]: shelly_core::limits::EGRESS_REQUEST_HEADERS
    /// [`limits::EGRESS_REQUEST_HEADER_BYTES`]: shelly_core::limits::EGRESS_REQUEST_HEADER_BYTES
    pub headers: Vec<(String, Vec<u8>)>,
    /// The credential to send.
    pub credential: CredentialUse,
    /// `true` to follow redirects; otherwise they are returned as responses.
    pub follow: bool,
    /// The time limit from the call to the end of the response. `None` and longer values mean [`limits::EGRESS_TIME`].
    ///
    /// [`limits::EGRESS_TIME`]: shelly_core::limits::EGRESS_TIME
    pub timeout: Option<Duration>,
    /// The longest silence in the middle of the response, after its head. `None`: limited by the time of the request alone.
    pub idle: Option<Duration>,
    /// The step for which the request is made. Servers that may be told of its span are told, unless `headers` name one.
    pub span: Option<StepSpan>,
    /// The body; must be empty for GET and HEAD.
    pub body: EgressRequestBody,
}
