//! The clients of one plugin of an agent: one for each set of addresses that its requests may reach, so that no connection
//! that was made for one request is used for another that may not go there.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use rustls::client::Resumption;

use super::{
    resolver::{AddressLookup, GrantedResolver, of_system},
    transport::EgressTransport,
};
use crate::{capability::AllowedAddresses, error::Fault, limits, net::tls::TlsTrust};

pub(super) struct EgressClients {
    lookup: AddressLookup,
    made: Mutex<HashMap<AllowedAddresses, EgressTransport>>,
}

impl Default for EgressClients {
    fn default() -> Self {
        Self::new(of_system())
    }
}

impl EgressClients {
    /// None yet; names are looked up so.
    pub fn new(lookup: AddressLookup) -> Self {
        Self { lookup, made: Mutex::default() }
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    /// The client that reaches these addresses and no other.
    pub fn get(&self, reaches: AllowedAddresses) -> Result<EgressTransport, Fault> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&reaches) {
            return Ok(client.clone());
        }
        let resolver = GrantedResolver { reaches: reaches.clone(), lookup: self.lookup.clone() };
        let client = make(resolver)?;
        if made.len() >= limits::EGRESS_CLIENTS {
            made.clear();
        }
        made.insert(reaches, client.clone());
        Ok(client)
    }
}

fn make(resolver: GrantedResolver) -> Result<EgressTransport, Fault> {
    let mut tls = TlsTrust::of_process()?.tls.clone();
    // What one plugin's connections left behind is not used for those of another.
    tls.resumption = Resumption::in_memory_sessions(limits::EGRESS_IDLE_CONNECTIONS);
    Ok(EgressTransport::new(resolver, tls))
}

/// Why certificates cannot be checked, if so.
pub(super) fn no_roots() -> Result<Option<&'static str>, Fault> {
    Ok(TlsTrust::of_process()?.no_roots.as_deref())
}
