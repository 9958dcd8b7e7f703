//! The hops of a request, and the check against the grant.

use std::sync::Arc;

use http::HeaderMap;
use url::Url;

use super::{
    Credential, CredentialUse, EgressRequest, facts, head, redirect, scrub::Scrubber, upload::EgressRequestBody,
};
use shelly_core::{
    capability::{HttpGrant, READING_METHODS, is_method},
    error::Fault,
    limits,
};

/// One hop of a request, before it is sent. It was parsed once, so that all checks see the same values.
pub(super) struct EgressHop {
    pub method: http::Method,
    pub url: Url,
    /// The headers that the plugin set.
    pub headers: HeaderMap,
    pub body: EgressRequestBody,
}

impl EgressHop {
    /// Creates the first hop.
    pub fn first(request: EgressRequest) -> Result<Self, Fault> {
        if !is_method(&request.method) {
            let shown: String = request.method.chars().take(limits::NAME_SHOWN_CHARS).collect();
            return Err(Fault::invalid(format!(
                "`{}` is no method: write it in upper case, as GET; CONNECT and TRACE are none",
                shown.escape_debug()
            )));
        }
        let method = http::Method::from_bytes(request.method.as_bytes());
        let method = method.map_err(|_| Fault::invalid("the method cannot be sent"))?;
        let url = url(&request.url)?;
        Ok(Self { method, url, headers: head::of_request(&request.headers)?, body: request.body })
    }

    /// Returns `true` if a body has no meaning with this method.
    pub fn is_bare(&self) -> bool {
        matches!(self.method, http::Method::GET | http::Method::HEAD)
    }
}

/// Parses a URL that may be requested, provided that it is granted. Drops the fragment, which is never sent.
pub(super) fn url(text: &str) -> Result<Url, Fault> {
    if text.len() > limits::EGRESS_URL_BYTES {
        return Err(Fault::TooLarge { message: format!("a URL has more than {} bytes", limits::EGRESS_URL_BYTES) });
    }
    // A URL parser would remove these characters, so that the URL requested would differ from the one that was read.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Fault::invalid("the URL has spaces or control characters: percent-encode them"));
    }
    let url = Url::parse(text).map_err(|error| Fault::invalid(format!("the URL is none: {error}")))?;
    checked(url)
}

/// Checks a parsed URL like [`url()`].
pub(super) fn checked(mut url: Url) -> Result<Url, Fault> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::invalid("the URL begins neither with https:// nor with http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::invalid(
            "the URL holds a user or a password: use a credential that is granted, by its name",
        ));
    }
    url.set_fragment(None);
    if url.as_str().len() > limits::EGRESS_URL_BYTES {
        return Err(Fault::TooLarge { message: format!("a URL has more than {} bytes", limits::EGRESS_URL_BYTES) });
    }
    Ok(url)
}

/// The grant and credentials against which requests are checked.
pub(super) struct EgressPolicy {
    pub http: HttpGrant,
    pub credentials: Vec<Arc<Credential>>,
}

impl EgressPolicy {
    /// Checks that a hop is granted and returns the credential for it. `hops` is the number of redirects before it.
    pub fn clear(
        &self,
        target: &EgressHop,
        wanted: &CredentialUse,
        hops: u32,
        scrubber: &Scrubber,
    ) -> Result<Option<Arc<Credential>>, Fault> {
        let (method, url) = (target.method.as_str(), &target.url);
        if !self.http.names(method, url) {
            let (shown, led) = (facts::shown(url, scrubber), if hops > 0 { ", where a redirect leads," } else { "" });
            let line = url.origin().ascii_serialization();
            let entry = match READING_METHODS.contains(&method) {
                true => format!("\"{line}\""),
                // An entry that is only a URL would not grant this method.
                false => format!("{{url: \"{line}\", methods: [{method}]}}"),
            };
            let message = format!("{method} {shown}{led} is not granted: write `http: [{entry}]`");
            return Err(Fault::Denied { message });
        }
        let here = self.credentials.iter().filter(|credential| credential.is_for(method, url));
        if let Some(own) = here.clone().find(|credential| target.headers.contains_key(&credential.header)) {
            return Err(Fault::Denied {
                message: format!(
                    "the header `{}` is the host's for this target: leave it out, and name the credential `{}`",
                    own.header,
                    own.name()
                ),
            });
        }
        match wanted {
            CredentialUse::None => Ok(None),
            CredentialUse::Any => Ok(here.clone().next().cloned()),
            CredentialUse::Named(name) => {
                let credential = self.named(name)?;
                let is_for = credential.is_for(method, url);
                if !is_for && hops == 0 {
                    let (shown, name) = (facts::shown(url, scrubber), credential.name());
                    let message = format!("the credential `{name}` is not for {method} {shown}");
                    return Err(Fault::Denied { message });
                }
                Ok(is_for.then(|| credential.clone()))
            }
        }
    }

    fn named(&self, name: &str) -> Result<&Arc<Credential>, Fault> {
        self.credentials.iter().find(|credential| credential.name() == name).ok_or_else(|| {
            let shown: String = name.chars().take(limits::NAME_SHOWN_CHARS).collect();
            let there: Vec<_> = self.credentials.iter().map(|credential| credential.name()).collect();
            let there =
                if there.is_empty() { "there is none".into() } else { format!("there are: {}", there.join(", ")) };
            Fault::Denied {
                message: format!("no credential `{}` is granted, or it does not exist; {there}", shown.escape_debug()),
            }
        })
    }

    /// Returns the indices of the credentials that the host of a URL may have received.
    pub fn known_at(&self, url: &Url) -> impl Iterator<Item = usize> {
        let here = self.credentials.iter().enumerate().filter(|(_, credential)| credential.may_be_known_at(url));
        here.map(|(place, _)| place)
    }

    /// Removes the headers that identify the sender, which must not go to another origin.
    pub fn forget_sender(&self, headers: &mut HeaderMap) {
        for name in redirect::OF_THE_SENDER {
            headers.remove(name);
        }
        for credential in &self.credentials {
            headers.remove(&credential.header);
        }
    }
}
