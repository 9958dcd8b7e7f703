use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::roots::Roots;
use crate::{config::McpServerUse, mcp::McpClient};

/// The connections in use; another user of the same server shares its connection.
#[derive(Default)]
pub(crate) struct McpClientPool {
    connected: Mutex<HashMap<(String, AllowedServerRequests), Weak<McpClient>>>,
    /// The folders that the servers are told of as roots.
    pub roots: Arc<Roots>,
}

impl McpClientPool {
    pub(super) fn find(&self, key: &(String, AllowedServerRequests)) -> Option<Arc<McpClient>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.upgrade()
    }

    pub(super) fn all(&self) -> Vec<Arc<McpClient>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).values().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn keep(&self, key: (String, AllowedServerRequests), client: &Arc<McpClient>) {
        let mut clients = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        clients.insert(key, Arc::downgrade(client));
    }
}

/// The requests that a server may make of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AllowedServerRequests {
    /// `true` if the server may ask the model of the agent.
    pub model: bool,
    /// `true` if the server may ask the person.
    pub person: bool,
}

impl From<&McpServerUse> for AllowedServerRequests {
    fn from(uses: &McpServerUse) -> Self {
        Self { model: uses.sampling, person: uses.elicitation }
    }
}
