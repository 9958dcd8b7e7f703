//! Documents of APIs: read from files and URLs, and the operations in them that a person has approved.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::future::join_all;
use serde_json::json;

use super::granted_api::ReachedApis;
use crate::{
    assemble::{App, StartupNotices, approved_tools::unapproved_warnings, mcp::trusted_as},
    capability::HttpGrant,
    config::{AgentConfig, CredentialConfig, OpenApiConfig},
    digest::Sha256Digest,
    error::{ErrorKind, Fault, Report},
    limits,
    mcp::{PinStatus, Pins, tool_name},
    net::{
        self,
        egress::{Egress, EgressLimits, EgressRequest},
    },
    openapi::{ApiListing, origin_of},
};

/// An API whose document was read.
pub struct ReadApi {
    /// Its operations.
    pub listing: Arc<ApiListing>,
    /// The approved operations; `None`: all, because the document is a file or has a fixed digest.
    pub pins: Option<Pins>,
    /// `true` if operations are approved one by one and none was approved yet.
    pub is_new: bool,
    /// The digest of the document's place and the base: an approval of one does not carry over to another.
    pub(crate) target: String,
}

impl App {
    /// Reads the documents of the APIs of these agents, those at URLs concurrently. An API whose document cannot be used is
    /// reported and left out.
    pub(crate) async fn reach_apis(&self, agents: &[&AgentConfig], notices: &mut StartupNotices) -> ReachedApis {
        let wanted: BTreeSet<_> = agents.iter().flat_map(|agent| &agent.openapi).map(|uses| &uses.name).collect();
        let read = join_all(wanted.iter().map(|name| self.read_api(name))).await;
        let mut reached = ReachedApis::default();
        for (name, read) in wanted.into_iter().zip(read) {
            match read {
                Ok(api) => {
                    let api = self.with_approvals_of(name, api, notices);
                    let config = self.config.api(name).ok();
                    let held = config.and_then(|config| self.config.credential_of(config));
                    let credential = match held {
                        Some(held) => {
                            let place = format!("openapi.{name}");
                            self.resolved_credential(held, &place, &mut notices.warnings).await
                        }
                        None => None,
                    };
                    reached.add(name, api, credential);
                }
                Err(report) => {
                    notices.warnings.push(format!("{}; continuing without its tools", report.with_hint()));
                }
            }
        }
        reached
    }

    /// Returns the APIs of the config.
    pub fn apis(&self) -> &[OpenApiConfig] {
        &self.config.openapi
    }

    /// Reads the document of an API, unless that was done before, and its approvals.
    ///
    /// # Errors
    ///
    /// A [`Report`]: there is no such API, its document cannot be used, or the stored approvals cannot be read.
    pub async fn read_api(&self, name: &str) -> Result<ReadApi, Report> {
        let api = self.config.api(name)?;
        let listing = match api.listing.get() {
            Some(Ok(listing)) => Arc::clone(listing),
            Some(Err(why)) => return Err(unusable(name, why)),
            None => {
                let text = fetched(api).await.map_err(|fault| {
                    let report = unusable(name, &fault.to_string());
                    match net::mend(&fault) {
                        Some(mend) => report.hint(mend),
                        None => report,
                    }
                })?;
                let place = self.config.credential_of(api).map(CredentialConfig::place);
                api.read(&text, place.as_ref()).map_err(|why| unusable(name, &why))?
            }
        };
        let target = target_digest(api);
        let stored = if api.is_pinned() { self.pins_of(&origin_of(name), &target)? } else { None };
        let is_new = api.is_pinned() && stored.is_none();
        let pins = api.is_pinned().then(|| stored.unwrap_or_default());
        Ok(ReadApi { listing, pins, is_new, target })
    }

    /// Stores the approved operations of an API.
    ///
    /// # Errors
    ///
    /// A [`Report`] if they cannot be stored.
    pub fn approve_operations(&self, name: &str, pins: &Pins) -> Result<(), Report> {
        self.keep_pins(origin_of(name), target_digest(self.config.api(name)?), pins)
    }

    /// Approves everything in a document that is used for the first time: consent to the API includes its present
    /// operations. Otherwise warns of operations that are not approved.
    fn with_approvals_of(&self, name: &str, api: ReadApi, notices: &mut StartupNotices) -> ReadApi {
        let Some(pins) = &api.pins else { return api };
        let operations = &api.listing.operations;
        let mut now = Pins::default();
        operations.iter().for_each(|one| now.approve(&*one.name, &*one.digest));
        if self.approves_all {
            return ReadApi { pins: Some(now), ..api };
        }
        if api.is_new {
            let count = operations.len();
            let words = if count == 1 { "one operation is" } else { &format!("{count} operations are") };
            notices.notes.push(format!("API {name}: {words} now approved"));
            if let Err(report) = self.approve_operations(name, &now) {
                let warning = format!("openapi.{name}: the operations are approved for this run only: {report}");
                notices.warnings.push(warning);
            }
            return ReadApi { pins: Some(now), ..api };
        }
        let named = |state| {
            let of_it = operations.iter().filter(|one| pins.state(&one.name, &one.digest) == state);
            of_it.map(|one| one.name.as_str()).collect::<Vec<_>>()
        };
        let (place, new, changed) = (format!("openapi.{name}"), named(PinStatus::New), named(PinStatus::Changed));
        notices.warnings.extend(unapproved_warnings(&place, ("openapi", name), &new, &changed));
        api
    }

    /// Returns the digest under which a person trusts an operation, by the name of its tool; `None` if it is not known.
    pub(crate) fn digest_of_operation(&self, api: &OpenApiConfig, tool: &str) -> Option<String> {
        let target = target_digest(api);
        let digest = match api.listing.found() {
            Some(listing) => listing.operations.iter().find(|one| one.spec.name == tool)?.digest.clone(),
            // The document was not read yet.
            None => {
                let pins = self.pins_of(&origin_of(&api.name), &target).ok()??;
                let found = pins.iter().find(|(name, _)| tool_name(&api.name, name) == tool);
                found.map(|(_, digest)| digest.to_owned())?
            }
        };
        Some(trusted_as(&target, &digest))
    }
}

/// Returns the digest of a document's place and of the base.
fn target_digest(api: &OpenApiConfig) -> String {
    Sha256Digest::of(json!([api.document, api.base]).to_string()).to_string()
}

/// Reports that a document cannot be used.
pub(super) fn unusable(name: &str, why: &str) -> Report {
    Report::new(ErrorKind::Usage, format!("the document of the API `{name}` cannot be used"))
        .cause(why)
        .hint(format!("check openapi.{name}.document"))
}

/// Fetches a document: from its URL and what is below it alone, without a credential.
async fn fetched(api: &OpenApiConfig) -> Result<String, Fault> {
    let url = api.url().ok_or_else(|| Fault::invalid("not a URL"))?;
    let mut place = url.clone();
    place.set_query(None);
    place.set_fragment(None);
    let http = HttpGrant::entry(place.as_str(), &["GET".to_owned()], &api.networks()).map_err(Fault::invalid)?;
    let most = limits::OPENAPI_DOCUMENT_BYTES;
    let bounds = EgressLimits { response_bytes: most as u64, ..EgressLimits::default() };
    let request = EgressRequest {
        method: "GET".into(),
        url: url.to_string(),
        follow: true,
        timeout: Some(limits::OPENAPI_FETCH_TIME),
        ..EgressRequest::default()
    };
    let response = Egress::new(http, Vec::new(), bounds).send(request).await.map_err(|failure| failure.fault)?;
    if response.status != 200 {
        return Err(Fault::other(format!("{} answered with the status {}", net::origin(&url), response.status)));
    }
    let (mut body, mut bytes) = (response.body, Vec::new());
    let too_large = |fault: Fault| match fault {
        Fault::TooLarge { .. } => fault.saying(format!("the document has more than {most} bytes")),
        fault => fault,
    };
    while let Some(chunk) = body.chunk().await.map_err(too_large)? {
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| Fault::other("the document is not UTF-8 text"))
}
