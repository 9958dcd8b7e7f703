//! The HTTP clients of one plugin of an agent: one for each set of addresses that requests may reach. A connection made for
//! one request is therefore never used for another that may not go there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::client::Resumption;

use super::{
    resolver::{AddressLookup, GrantedResolver, of_system},
    responder::HttpResponder,
    transport::EgressTransport,
};
use crate::tls::TlsTrust;
use shelly_core::{capability::AllowedAddresses, error::Fault, limits};

pub(super) struct EgressClients {
    lookup: AddressLookup,
    made: Mutex<HashMap<AllowedAddresses, EgressTransport>>,
    /// Answers in place of the network, if there is one.
    responder: Option<Arc<dyn HttpResponder>>,
}

impl Default for EgressClients {
    fn default() -> Self {
        Self::new(of_system())
    }
}

impl EgressClients {
    /// Creates an empty set; `lookup` resolves names.
    pub fn new(lookup: AddressLookup) -> Self {
        Self { lookup, made: Mutex::default(), responder: None }
    }

    /// Creates a set that sends nothing: this responder answers.
    pub fn answered_by(responder: Arc<dyn HttpResponder>) -> Self {
        Self { responder: Some(responder), ..Self::default() }
    }

    /// Returns what answers in place of the network.
    pub fn responder(&self) -> Option<&dyn HttpResponder> {
        self.responder.as_deref()
    }

    /// Returns the number of clients.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    /// Returns the client that reaches only these addresses.
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
    // TLS sessions of one plugin are not resumed by another.
    tls.resumption = Resumption::in_memory_sessions(limits::EGRESS_IDLE_CONNECTIONS);
    Ok(EgressTransport::new(resolver, tls))
}

/// Returns the reason why certificates cannot be verified, if so.
pub(super) fn no_roots() -> Result<Option<&'static str>, Fault> {
    Ok(TlsTrust::of_process()?.no_roots.as_deref())
}
