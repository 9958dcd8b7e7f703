use std::collections::HashMap;

use super::{client_pool::AllowedServerRequests, server_tools::GrantedServer};
use crate::config::McpServerUse;

/// The connected servers by name and by the requests that each may make.
#[derive(Default)]
pub(crate) struct GrantedServers(HashMap<(String, AllowedServerRequests), GrantedServer>);

impl GrantedServers {
    /// Adds a server that was reached, with the requests that it may make.
    pub fn add(&mut self, name: String, may_ask: AllowedServerRequests, server: GrantedServer) {
        self.0.insert((name, may_ask), server);
    }

    /// Returns the server for this use, if it was reached.
    pub fn of(&self, uses: &McpServerUse) -> Option<GrantedServer> {
        let granted_server = self.0.get(&(uses.name.clone(), uses.into()))?;
        Some(GrantedServer { uses: uses.clone(), ..granted_server.clone() })
    }
}
