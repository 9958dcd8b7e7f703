//! The check of a hop against the grant.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, header};
use url::Url;

use super::{
    credential::{Credential, CredentialUse},
    facts,
    hop::EgressHop,
    scrub::Scrubber,
};
use shelly_core::{
    capability::{HttpGrant, READING_METHODS},
    error::Fault,
    limits,
};

/// Headers of a plugin that identify the sender.
const OF_THE_SENDER: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

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
            let (shown, led) = (facts::shown(url, scrubber), if hops > 0 { ", the target of a redirect," } else { "" });
            let line = url.origin().ascii_serialization();
            let entry = match READING_METHODS.contains(&method) {
                true => format!("\"{line}\""),
                // An entry that is only a URL would not grant this method.
                false => format!("{{url: \"{line}\", methods: [{method}]}}"),
            };
            let message = format!("{method} {shown}{led} is not granted; to grant it write `http: [{entry}]`");
            return Err(Fault::Denied { message });
        }
        let here = self.credentials.iter().filter(|credential| credential.is_for(method, url));
        let taken =
            here.clone().find_map(|credential| Some((credential, credential.taken_slot(&target.headers, url)?)));
        if let Some((own, slot)) = taken {
            let name = own.name();
            let message =
                format!("the host sets {slot} for this target; leave it out, and name the credential `{name}`");
            return Err(Fault::Denied { message });
        }
        match wanted {
            CredentialUse::None => Ok(None),
            CredentialUse::Any => Ok(here.clone().next().cloned()),
            CredentialUse::Named(name) => {
                let credential = self.named(name)?;
                let is_for = credential.is_for(method, url);
                if !is_for && hops == 0 {
                    let (shown, name) = (facts::shown(url, scrubber), credential.name());
                    let message = format!("the credential `{name}` is not valid for {method} {shown}");
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
            let there = if there.is_empty() {
                "no credentials are granted".into()
            } else {
                format!("granted credentials: {}", there.join(", "))
            };
            Fault::Denied {
                message: format!("the credential `{}` is not granted or does not exist; {there}", shown.escape_debug()),
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
        for name in OF_THE_SENDER {
            headers.remove(name);
        }
        for header in self.credentials.iter().filter_map(|credential| credential.header()) {
            headers.remove(header);
        }
    }
}
