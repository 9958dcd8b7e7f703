//! The network access of plugins: requests within a plugin's grant, with credentials that the plugin does not see.
//!
//! An [`Egress`] belongs to one plugin of one agent. All of its requests go through [`Egress::send`], which parses the
//! request once, checks it and each hop of its redirects against the grant, resolves names to granted addresses only and
//! connects to those. It adds the credential, limits everything sent and received, and redacts credentials in the response.
//! An `Egress` shares no connections with another.

mod box_error;
mod clients;
mod credential;
#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod egress;
mod egress_limits;
mod egress_request;
mod egress_response;
mod facts;
mod head;
mod hop;
mod policy;
mod redirect;
mod reply;
mod request_body;
pub(super) mod resolver;
mod responder;
mod scrub;
mod scrubber_set;
mod throttle;
mod transport;
mod upload;

pub use self::{
    credential::{Credential, CredentialUse, forms},
    egress::Egress,
    egress_limits::EgressLimits,
    egress_request::EgressRequest,
    egress_response::EgressResponse,
    facts::{EgressFacts, EgressFailure},
    head::check_header_name,
    reply::EgressResponseBody,
    request_body::EgressRequestBody,
    responder::{HttpResponder, ResponderReply, ResponderRequest},
    upload::EgressUpload,
};

#[cfg(test)]
mod tests;
