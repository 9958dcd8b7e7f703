//! The APIs of a config: their documents, and the grants and mistakes of agents that use them.

use std::collections::BTreeSet;

use super::{Config, CredentialConfig, OpenApiConfig, OpenApiUse, explain::unknown};
use crate::{
    capability::{Grant, HttpGrant},
    error::{ErrorKind, Report},
    limits,
};

impl Config {
    /// Returns the API of this name.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is none.
    pub fn api(&self, name: &str) -> Result<&OpenApiConfig, Report> {
        let found = self.openapi.iter().find(|api| api.name == name);
        found.ok_or_else(|| unknown("API", name, self.openapi.iter().map(|api| api.name.as_str())))
    }

    /// Returns the credential that the host adds to the requests of an API.
    pub fn credential_of(&self, api: &OpenApiConfig) -> Option<&CredentialConfig> {
        let name = api.credential.as_ref()?;
        self.credentials.iter().find(|credential| credential.name == *name)
    }

    /// Reads the documents that are files. Those at URLs are read when an agent needs them.
    pub fn read_api_files(&self) {
        for api in &self.openapi {
            api.read_file(&self.root, self.credential_of(api).map(CredentialConfig::place).as_ref());
        }
    }

    /// Returns what an agent needs to use operations of an API; nothing if its document was not read.
    pub fn api_grant(&self, uses: &OpenApiUse) -> Grant {
        let Ok(api) = self.api(&uses.name) else { return Grant::default() };
        let Some(Ok(selected)) = api.listing.found().map(|listing| uses.selected(listing)) else {
            return Grant::default();
        };
        let http = selected.operations.iter().fold(HttpGrant::default(), |all, one| all.join(&one.grant));
        Grant { http, credentials: api.credential.iter().cloned().collect(), ..Grant::default() }
    }

    /// Checks the APIs, and the uses that agents make of them.
    pub(super) fn api_mistakes(&self) -> Vec<Report> {
        let mut mistakes = Vec::new();
        if self.openapi.len() > limits::OPENAPI_APIS {
            let most = limits::OPENAPI_APIS;
            mistakes.push(Report::new(ErrorKind::Usage, format!("openapi: must have at most {most} entries")));
        }
        let mut names = BTreeSet::new();
        for api in &self.openapi {
            mistakes.extend(api.check().err());
            let at = format!("openapi.{}", api.name.escape_debug());
            let is_server = self.mcp_servers.iter().any(|server| server.name == api.name);
            if !names.insert(&api.name) || is_server {
                let what = if is_server { "an MCP server has this name" } else { "two entries have this name" };
                mistakes.push(Report::new(ErrorKind::Usage, format!("{at}: {what}")).hint("rename one of them"));
            }
            if let Some(name) = api.credential.as_ref().filter(|_| self.credential_of(api).is_none()) {
                let known = self.credentials.iter().map(|credential| credential.name.as_str());
                mistakes.push(unknown("credential", name, known).cause(format!("named by {at}.credential")));
            }
        }
        for agent in &self.agents {
            let at = format!("{}.openapi", agent.place());
            let mut had = BTreeSet::new();
            for uses in &agent.openapi {
                mistakes.extend(self.api(&uses.name).err().map(|report| report.cause(format!("named by {at}"))));
                mistakes.extend(uses.check(&at).err());
                if !had.insert(&uses.name) {
                    let what = format!("{at}: `{}` appears twice", uses.name.escape_debug());
                    mistakes.push(Report::new(ErrorKind::Usage, what).hint("merge the two entries"));
                }
            }
        }
        mistakes
    }
}
