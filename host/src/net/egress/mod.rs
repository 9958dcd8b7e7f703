//! The way out of a plugin: requests within what it is granted, with credentials that it does not see.
//!
//! An [`Egress`] is what one plugin of one agent has. Whatever sends for it goes through [`Egress::send`], which reads the
//! request once, checks it and each hop of its redirects against the grant, resolves names to granted addresses alone and
//! connects to those, adds the credential, bounds all that is sent and comes, and blots out credentials in what comes back.
//! It shares no connection with another.

mod clients;
mod credential;
mod facts;
mod head;
mod hop;
mod redirect;
mod reply;
pub(super) mod resolver;
mod scrub;
mod throttle;
mod transport;
mod upload;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{StatusCode, header};
use http_body_util::BodyExt;
use hyper_util::client::legacy;
use reqwest::Body;
use tokio::time::{Instant, timeout_at};

use self::{
    clients::EgressClients,
    hop::{EgressHop, EgressPolicy},
    redirect::SentHop,
    reply::OpenEgressBody,
    resolver::NoGrantedAddress,
    scrub::{Scrubber, ScrubberSet},
    throttle::EgressThrottle,
    transport::IdleBytesExceeded,
    upload::{BodyCutReason, CountedBody},
};
pub use self::{
    credential::{Credential, CredentialUse, forms},
    facts::{EgressFacts, EgressFailure},
    reply::EgressResponseBody,
    upload::{EgressRequestBody, EgressUpload},
};
use crate::{
    capability::HttpGrant,
    error::Fault,
    limits,
    net::{
        failure::{cause, is_loopback, is_refused, not_reached, root, timed_out},
        origin, status,
    },
};

/// What one plugin of one agent may send at most. What is above a ceiling is that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// Requests in a minute, redirects counted; ceiling [`limits::EGRESS_REQUESTS_PER_MINUTE_CEILING`].
    pub requests_per_minute: u32,
    /// Requests and open bodies at once; ceiling [`limits::EGRESS_CONCURRENCY_CEILING`].
    pub concurrency: u32,
    /// Bytes of the body of a request; ceiling [`limits::EGRESS_REQUEST_BYTES_CEILING`].
    pub request_bytes: u64,
    /// Bytes of the body of a response, decoded; ceiling [`limits::EGRESS_RESPONSE_BYTES_CEILING`].
    pub response_bytes: u64,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            requests_per_minute: limits::EGRESS_REQUESTS_PER_MINUTE,
            concurrency: limits::EGRESS_CONCURRENCY,
            request_bytes: limits::EGRESS_REQUEST_BYTES,
            response_bytes: limits::EGRESS_RESPONSE_BYTES,
        }
    }
}

impl EgressLimits {
    fn below_ceilings(self) -> Self {
        Self {
            requests_per_minute: self.requests_per_minute.min(limits::EGRESS_REQUESTS_PER_MINUTE_CEILING),
            concurrency: self.concurrency.min(limits::EGRESS_CONCURRENCY_CEILING),
            request_bytes: self.request_bytes.min(limits::EGRESS_REQUEST_BYTES_CEILING),
            response_bytes: self.response_bytes.min(limits::EGRESS_RESPONSE_BYTES_CEILING),
        }
    }
}

/// What to send.
#[derive(Debug, Default)]
pub struct EgressRequest {
    /// In upper case.
    pub method: String,
    /// Absolute, `http` or `https`, without user and password; a fragment is dropped. At most [`limits::EGRESS_URL_BYTES`].
    pub url: String,
    /// Beside those that are the host's. At most [`limits::EGRESS_REQUEST_HEADERS`], and
    /// [`limits::EGRESS_REQUEST_HEADER_BYTES`].
    pub headers: Vec<(String, Vec<u8>)>,
    /// Who asks.
    pub credential: CredentialUse,
    /// Whether redirects are followed; else they are responses.
    pub follow: bool,
    /// From now to the end of the response. None, or longer: [`limits::EGRESS_TIME`].
    pub timeout: Option<Duration>,
    /// The longest silence in the middle of the response, once its head is there. None: only the time ends it.
    pub idle: Option<Duration>,
    /// The body; there is none of GET and HEAD.
    pub body: EgressRequestBody,
}

/// What came back: the body follows.
#[derive(Debug)]
pub struct EgressResponse {
    /// 200 to 599.
    pub status: u16,
    /// In order, names in lower case, repeated ones kept; without credentials, and without those of the connection alone.
    pub headers: Vec<(String, Vec<u8>)>,
    /// To be read.
    pub body: EgressResponseBody,
    /// For whoever watches.
    pub facts: Box<EgressFacts>,
}

/// The way out of one plugin of one agent. Clones share all of it.
#[derive(Clone)]
pub struct Egress(Arc<EgressInner>);

struct EgressInner {
    policy: EgressPolicy,
    limits: EgressLimits,
    searches: Arc<ScrubberSet>,
    pace: Arc<EgressThrottle>,
    clients: Arc<EgressClients>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Egress").field(&self.0.policy.http).finish()
    }
}

impl Egress {
    /// A way out for these requests, with these credentials.
    pub fn new(http: HttpGrant, credentials: Vec<Arc<Credential>>, limits: EgressLimits) -> Self {
        Self::with(http, credentials, limits, EgressClients::default())
    }

    fn with(http: HttpGrant, credentials: Vec<Arc<Credential>>, limits: EgressLimits, clients: EgressClients) -> Self {
        // What cannot be looked for in what comes back is not sent.
        let (credentials, searches) = match ScrubberSet::new(&credentials) {
            Some(searches) => (credentials, searches),
            None => Default::default(),
        };
        let searches = Arc::new(searches);
        let limits = limits.below_ceilings();
        let (pace, clients) =
            (EgressThrottle::new(limits.requests_per_minute, limits.concurrency).into(), clients.into());
        Self(Arc::new(EgressInner { policy: EgressPolicy { http, credentials }, limits, searches, pace, clients }))
    }

    /// The same way out for these requests: counted together, with the same credentials.
    pub fn for_requests(&self, http: HttpGrant) -> Self {
        let EgressInner { policy, limits, searches, pace, clients } = &*self.0;
        let policy = EgressPolicy { http, credentials: policy.credentials.clone() };
        let (searches, pace, clients) = (Arc::clone(searches), Arc::clone(pace), Arc::clone(clients));
        Self(Arc::new(EgressInner { policy, limits: *limits, searches, pace, clients }))
    }

    /// The names of the credentials, in order.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        self.0.policy.credentials.iter().map(|credential| credential.name())
    }

    /// Sends a request and waits for the head of the response; an answer of any status is one. Nothing is sent twice unless a
    /// server asks for it by a redirect. Dropping the future hangs up.
    ///
    /// # Errors
    ///
    /// [`Fault::Denied`] of what is not granted, [`Fault::Invalid`] of what cannot be sent, [`Fault::TooLarge`] beyond a
    /// bound, [`Fault::RateLimited`] of too many in a minute or at once, [`Fault::Timeout`], [`Fault::Unavailable`] if the
    /// server was not reached or hung up, else [`Fault::Other`].
    pub async fn send(&self, request: EgressRequest) -> Result<EgressResponse, EgressFailure> {
        let mut facts = Box::<EgressFacts>::default();
        let time = request.timeout.map_or(limits::EGRESS_TIME, |time| time.min(limits::EGRESS_TIME));
        let deadline = Instant::now() + time;
        let mut known = BTreeSet::new();
        let exchange = self.0.exchange(request, deadline, &mut facts, &mut known);
        let outcome = match timeout_at(deadline, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(timed_out(if facts.url.is_empty() { "the request" } else { &facts.url })),
        };
        match outcome {
            Ok(EgressResponseParts { status, headers, body }) => Ok(EgressResponse { status, headers, body, facts }),
            Err(fault) => {
                let shown = facts::scrubbed(fault.clone(), self.0.searches.all());
                tracing::debug!(method = facts.method, url = facts.url, address = ?facts.address, fault = %shown, "no response");
                let fault = facts::scrubbed(fault, &self.0.scrubber(&known));
                Err(EgressFailure { fault, facts })
            }
        }
    }
}

/// A response without what is told of it.
struct EgressResponseParts {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: EgressResponseBody,
}

impl EgressInner {
    /// Looks for the credentials at these places, in what a plugin is handed.
    fn scrubber(&self, known: &BTreeSet<usize>) -> Scrubber {
        self.searches.of(&self.policy.credentials, known)
    }

    /// Sends the request and follows where it leads. `known`: the places of the credentials that a server on the way may have
    /// been sent, now or before.
    async fn exchange(
        &self,
        request: EgressRequest,
        deadline: Instant,
        facts: &mut EgressFacts,
        known: &mut BTreeSet<usize>,
    ) -> Result<EgressResponseParts, Fault> {
        self.pace.count()?;
        let place = self.pace.place()?;
        let (wanted, follow, idle) = (request.credential.clone(), request.follow, request.idle);
        let mut target = EgressHop::first(request)?;
        facts.method = target.method.as_str().into();
        loop {
            (facts.url, facts.status, facts.address) = (facts::shown(&target.url, self.searches.all()), None, None);
            let credential = self.policy.clear(&target, &wanted, facts.hops, &self.scrubber(known))?;
            known.extend(self.policy.known_at(&target.url));
            let why_cut = BodyCutReason::default();
            let scrubber = self.scrubber(known);
            let (response, sent) = self.go(target, credential.as_deref(), &why_cut, facts).await?;
            if follow && let Some(next) = redirect::next(&self.policy, sent, response.status(), response.headers())? {
                if facts.hops == limits::EGRESS_HOPS {
                    let most = limits::EGRESS_HOPS;
                    return Err(Fault::other(format!("more than {most} redirects: they may lead in a circle")));
                }
                redirect::check_clean(response.headers(), &scrubber)?;
                self.pace.count()?;
                facts.hops += 1;
                target = next;
                continue;
            }
            let origin = origin(response.url());
            let is_bare = facts.method == "HEAD" || matches!(response.status().as_u16(), 204 | 304);
            let headers = head::of_response(response.headers(), !is_bare, &origin, &scrubber)?;
            let status = response.status().as_u16();
            if is_bare {
                return Ok(EgressResponseParts { status, headers, body: EgressResponseBody::new(None) });
            }
            if let Some(encoding) = encoding(&response) {
                let encoding = scrubber.text(&encoding);
                return Err(Fault::other(format!(
                    "{origin} encoded its response (`{encoding}`) in no way that is known"
                )));
            }
            let scrub = scrubber.stream();
            let left = self.limits.response_bytes;
            let open = OpenEgressBody {
                response,
                origin,
                scrubber,
                scrub,
                left,
                deadline,
                idle,
                why_cut,
                _place: place,
                held: None,
            };
            return Ok(EgressResponseParts { status, headers, body: EgressResponseBody::new(Some(open)) });
        }
    }

    /// One hop: from what is granted to what a server that is granted says.
    async fn go(
        &self,
        target: EgressHop,
        credential: Option<&Credential>,
        why_cut: &BodyCutReason,
        facts: &mut EgressFacts,
    ) -> Result<(reqwest::Response, SentHop), Fault> {
        let origin = origin(&target.url);
        if target.url.scheme() == "https"
            && let Some(why) = clients::no_roots()?
        {
            return Err(Fault::other(format!("the certificate of {origin} cannot be checked: {why}")));
        }
        let reaches = self.policy.http.reaches(target.method.as_str(), &target.url);
        let client = self.clients.get(reaches.clone())?;
        let EgressHop { method, url, headers, body } = bare(target).await?;
        let again = body.again();
        let mut message = reqwest::Request::new(method.clone(), url.clone());
        message.headers_mut().clone_from(&headers);
        if let Some(credential) = credential {
            message.headers_mut().insert(credential.header.clone(), credential.value.clone());
        }
        self.fill(&mut message, body, why_cut)?;
        let before = facts.credential.clone();
        if let Some(credential) = credential {
            facts.credential = Some(credential.name().into());
        }
        let message = http::Request::try_from(message)
            .map_err(|error| Fault::invalid(format!("the request cannot be sent: {}", root(&error))))?;
        let response = client.execute(message, url.clone()).await.map_err(|error| {
            facts.nobody_listens = is_loopback(&url) && is_refused(&error);
            let Some(NoGrantedAddress(addresses)) = cause(&error) else {
                return why_cut.get().cloned().unwrap_or_else(|| failed(&origin, &error));
            };
            // Nothing was sent.
            (facts.address, facts.credential) = (addresses.first().copied(), before);
            not_granted(&origin)
        })?;
        // The resolver has seen to it; nothing of a response is shown on its word alone.
        facts.address = response.remote_addr().map(|address| address.ip());
        if !facts.address.is_some_and(|address| reaches.holds(address)) {
            return Err(not_granted(&origin));
        }
        facts.status = Some(response.status().as_u16());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Fault::other(format!("{origin} would speak another protocol than HTTP")));
        }
        Ok((response, SentHop { method, url, headers, body: again }))
    }

    /// Puts the body into the message.
    fn fill(
        &self,
        message: &mut reqwest::Request,
        body: EgressRequestBody,
        why_cut: &BodyCutReason,
    ) -> Result<(), Fault> {
        let most = self.limits.request_bytes;
        match body {
            EgressRequestBody::Bytes(bytes) if bytes.len() as u64 > most => return Err(upload::too_large()),
            EgressRequestBody::Bytes(bytes) if bytes.is_empty() => {
                // The library says no length then, and some servers insist on one.
                if matches!(message.method().as_str(), "POST" | "PUT" | "PATCH") {
                    message.headers_mut().insert(header::CONTENT_LENGTH, header::HeaderValue::from_static("0"));
                }
            }
            EgressRequestBody::Bytes(bytes) => *message.body_mut() = Some(bytes.into()),
            EgressRequestBody::Stream { length: Some(length), .. } if length > most => return Err(upload::too_large()),
            EgressRequestBody::Stream { body, length } => {
                let counted = CountedBody::new(body, length, most, why_cut.clone());
                *message.body_mut() = Some(Body::wrap(counted));
            }
        }
        Ok(())
    }
}

/// The request, if it has no body where that means nothing: servers that do not expect one take it for the next request.
async fn bare(mut target: EgressHop) -> Result<EgressHop, Fault> {
    if target.is_bare() {
        let has_body = match &mut target.body {
            EgressRequestBody::Bytes(bytes) => !bytes.is_empty(),
            EgressRequestBody::Stream { body, .. } => loop {
                match body.frame().await {
                    Some(Ok(frame)) if frame.data_ref().is_none_or(Bytes::is_empty) => {}
                    said => break said.is_some(),
                }
            },
        };
        if has_body {
            return Err(Fault::invalid(format!("a request with {} has no body: use POST", target.method)));
        }
        target.body = EgressRequestBody::default();
    }
    Ok(target)
}

/// How a body is encoded that was not decoded, if it is.
fn encoding(response: &reqwest::Response) -> Option<String> {
    let mut named = response.headers().get_all(header::CONTENT_ENCODING).iter();
    let named = named.find(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))?;
    Some(status::shown(&String::from_utf8_lossy(named.as_bytes()), &[], limits::SHOWN_HEADER_BYTES))
}

/// A plugin is not told what its network looks like.
fn not_granted(origin: &str) -> Fault {
    Fault::Denied {
        message: format!("{origin} leads to no address that is granted: private ones are granted by `networks`"),
    }
}

fn failed(origin: &str, error: &legacy::Error) -> Fault {
    // The libraries have no other way to tell: that of HTTP/2 keeps the words of an error alone.
    let why = root(error);
    if why == IdleBytesExceeded.to_string() {
        return Fault::other(format!("{origin} sends no response: {why}"));
    }
    if why == "message head is too large" {
        return head::too_many(origin);
    }
    not_reached(origin, None, error)
}

#[cfg(test)]
mod tests;
