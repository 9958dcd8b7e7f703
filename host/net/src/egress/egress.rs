use std::{collections::BTreeSet, fmt, sync::Arc};

use bytes::Bytes;
use http::{StatusCode, header};
use http_body_util::BodyExt;
use hyper_util::client::legacy;
use reqwest::Body;
use tokio::time::{Instant, timeout_at};

use super::{
    clients::{self, EgressClients},
    credential::Credential,
    egress_limits::EgressLimits,
    egress_request::EgressRequest,
    egress_response::EgressResponse,
    facts::{self, EgressFacts, EgressFailure},
    head,
    hop::EgressHop,
    policy::EgressPolicy,
    redirect::{self, SentHop},
    reply::{EgressResponseBody, OpenEgressBody},
    request_body::{BodyCutReason, CountedBody, EgressRequestBody, too_large},
    resolver::NoGrantedAddress,
    responder::{self, HttpResponder},
    scrub::Scrubber,
    scrubber_set::ScrubberSet,
    throttle::EgressThrottle,
    transport::IdleBytesExceeded,
};
use crate::{
    address::{is_loopback, origin},
    failure::{cause, is_refused, not_reached, root, timed_out},
    status,
};
use shelly_core::{capability::HttpGrant, error::Fault, limits};

/// The network access of one plugin of one agent. Clones share all of its state.
#[derive(Clone)]
pub struct Egress(pub(super) Arc<EgressInner>);

/// The state that the clones of an [`Egress`] share.
pub(super) struct EgressInner {
    policy: EgressPolicy,
    pub limits: EgressLimits,
    pub searches: Arc<ScrubberSet>,
    pace: Arc<EgressThrottle>,
    clients: Arc<EgressClients>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Egress").field(&self.0.policy.http).finish()
    }
}

impl Egress {
    /// Creates network access for these requests, with these credentials.
    pub fn new(http: HttpGrant, credentials: Vec<Arc<Credential>>, limits: EgressLimits) -> Self {
        Self::with(http, credentials, limits, EgressClients::default())
    }

    /// Creates network access whose requests this responder answers, after the same checks. Nothing is sent.
    pub fn answered_by(
        http: HttpGrant,
        credentials: Vec<Arc<Credential>>,
        limits: EgressLimits,
        responder: Arc<dyn HttpResponder>,
    ) -> Self {
        Self::with(http, credentials, limits, EgressClients::answered_by(responder))
    }

    pub(super) fn with(
        http: HttpGrant,
        credentials: Vec<Arc<Credential>>,
        limits: EgressLimits,
        clients: EgressClients,
    ) -> Self {
        // A credential that cannot be searched for in responses is not sent.
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

    /// Returns network access for other requests that shares the counters and credentials of this one.
    pub fn for_requests(&self, http: HttpGrant) -> Self {
        let EgressInner { policy, limits, searches, pace, clients } = &*self.0;
        let policy = EgressPolicy { http, credentials: policy.credentials.clone() };
        let (searches, pace, clients) = (Arc::clone(searches), Arc::clone(pace), Arc::clone(clients));
        Self(Arc::new(EgressInner { policy, limits: *limits, searches, pace, clients }))
    }

    /// Returns the names of the credentials, in order.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        self.0.policy.credentials.iter().map(|credential| credential.name())
    }

    /// Sends a request and waits for the head of the response, of any status. Nothing is sent twice unless a server asks for
    /// it by a redirect. Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`Fault::Denied`] for a request that is not granted, [`Fault::Invalid`] for one that cannot be sent,
    /// [`Fault::TooLarge`] beyond a limit, [`Fault::RateLimited`] for too many requests per minute or at once,
    /// [`Fault::Timeout`], [`Fault::Unavailable`] if the server was not reached or closed the connection, otherwise
    /// [`Fault::Other`].
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

/// A response without its facts.
struct EgressResponseParts {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: EgressResponseBody,
}

impl EgressInner {
    /// Returns a scrubber for the credentials at these indices, for data that goes to the plugin.
    fn scrubber(&self, known: &BTreeSet<usize>) -> Scrubber {
        self.searches.of(&self.policy.credentials, known)
    }

    /// Sends the request and follows redirects. `known` collects the indices of the credentials that a server on the way may
    /// have received, now or before.
    async fn exchange(
        &self,
        request: EgressRequest,
        deadline: Instant,
        facts: &mut EgressFacts,
        known: &mut BTreeSet<usize>,
    ) -> Result<EgressResponseParts, Fault> {
        self.pace.count()?;
        let permit = self.pace.acquire()?;
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
                    return Err(Fault::other(format!("more than {most} redirects, possibly a loop")));
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
                return Err(Fault::other(format!("{origin} sent a response in the unknown encoding `{encoding}`")));
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
                _permit: permit,
                held: None,
            };
            return Ok(EgressResponseParts { status, headers, body: EgressResponseBody::new(Some(open)) });
        }
    }

    /// Sends one hop: from a granted request to the response of a granted server.
    async fn go(
        &self,
        target: EgressHop,
        credential: Option<&Credential>,
        why_cut: &BodyCutReason,
        facts: &mut EgressFacts,
    ) -> Result<(reqwest::Response, SentHop), Fault> {
        let (origin, responder) = (origin(&target.url), self.clients.responder());
        if responder.is_none()
            && target.url.scheme() == "https"
            && let Some(why) = clients::no_roots()?
        {
            return Err(Fault::other(format!("the certificate of {origin} cannot be checked: {why}")));
        }
        let reaches = self.policy.http.reaches(target.method.as_str(), &target.url);
        let target = bare(target).await?;
        let span_headers = target.span_headers();
        let EgressHop { method, url, headers, span, body } = target;
        let again = body.again();
        let mut message = reqwest::Request::new(method.clone(), url.clone());
        message.headers_mut().clone_from(&headers);
        message.headers_mut().extend(span_headers);
        if let Some(credential) = credential {
            credential.add_to(&mut message);
        }
        self.fill(&mut message, body, why_cut)?;
        let before = facts.credential.clone();
        if let Some(credential) = credential {
            facts.credential = Some(credential.name().into());
        }
        let message = http::Request::try_from(message)
            .map_err(|error| Fault::invalid(format!("the request cannot be sent: {}", root(&error))))?;
        let response = match responder {
            Some(responder) => responder::response_of(responder, message, &url, why_cut).await?,
            None => {
                let client = self.clients.get(reaches.clone())?;
                let response = client.execute(message, url.clone()).await.map_err(|error| {
                    facts.nobody_listens = is_loopback(&url) && is_refused(&error);
                    let Some(NoGrantedAddress(addresses)) = cause(&error) else {
                        return why_cut.get().cloned().unwrap_or_else(|| failed(&origin, &error));
                    };
                    // No connection was made, so nothing was sent.
                    (facts.address, facts.credential) = (addresses.first().copied(), before);
                    not_granted(&origin)
                })?;
                // The resolver has ensured this already, but no part of a response is shown on its word alone.
                facts.address = response.remote_addr().map(|address| address.ip());
                if !facts.address.is_some_and(|address| reaches.holds(address)) {
                    return Err(not_granted(&origin));
                }
                response
            }
        };
        facts.status = Some(response.status().as_u16());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Fault::other(format!("{origin} switches to a protocol other than HTTP")));
        }
        Ok((response, SentHop { method, url, headers, span, body: again }))
    }

    /// Sets the body of the message.
    fn fill(
        &self,
        message: &mut reqwest::Request,
        body: EgressRequestBody,
        why_cut: &BodyCutReason,
    ) -> Result<(), Fault> {
        let most = self.limits.request_bytes;
        match body {
            EgressRequestBody::Bytes(bytes) if bytes.len() as u64 > most => return Err(too_large()),
            EgressRequestBody::Bytes(bytes) if bytes.is_empty() => {
                // The library then omits the length, which some servers require.
                if matches!(message.method().as_str(), "POST" | "PUT" | "PATCH") {
                    message.headers_mut().insert(header::CONTENT_LENGTH, header::HeaderValue::from_static("0"));
                }
            }
            EgressRequestBody::Bytes(bytes) => *message.body_mut() = Some(bytes.into()),
            EgressRequestBody::Stream { length: Some(length), .. } if length > most => return Err(too_large()),
            EgressRequestBody::Stream { body, length } => {
                let counted = CountedBody::new(body, length, most, why_cut.clone());
                *message.body_mut() = Some(Body::wrap(counted));
            }
        }
        Ok(())
    }
}

/// Returns the request after a check that it has no body where a body has no meaning. Servers that do not expect one would
/// take it for the next request.
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
            return Err(Fault::invalid(format!("a request with {} must not have a body; use POST", target.method)));
        }
        target.body = EgressRequestBody::default();
    }
    Ok(target)
}

/// Returns the encoding of a body that was not decoded, if any.
fn encoding(response: &reqwest::Response) -> Option<String> {
    let mut named = response.headers().get_all(header::CONTENT_ENCODING).iter();
    let named = named.find(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))?;
    Some(status::shown(&String::from_utf8_lossy(named.as_bytes()), &[], limits::SHOWN_HEADER_BYTES))
}

/// Returns the fault for a server without granted addresses. It does not reveal the network's addresses to the plugin.
fn not_granted(origin: &str) -> Fault {
    Fault::Denied {
        message: format!("{origin} resolves to no address that is granted; grant private addresses with `networks`"),
    }
}

fn failed(origin: &str, error: &legacy::Error) -> Fault {
    // The libraries allow no other way: the HTTP/2 library keeps only the text of an error.
    let why = root(error);
    if why == IdleBytesExceeded.to_string() {
        return Fault::other(format!("{origin} sends no response: {why}"));
    }
    if why == "message head is too large" {
        return head::too_many(origin);
    }
    not_reached(origin, None, error)
}
