//! HTTP clients that may only connect to certain addresses.

use std::sync::Arc;

use reqwest::dns::{Name, Resolve, Resolving};

use super::{
    HttpClient,
    client::builder,
    egress::resolver::{AddressLookup, GrantedResolver, of_system},
    failure::cannot_start,
    tls::TlsTrust,
};
use shelly_core::{capability::AllowedAddresses, error::Fault};

impl HttpClient {
    /// Returns a client with the same settings that only connects to servers whose names resolve to these addresses. It
    /// shares no connections with this one. A proxy resolves names itself, and hosts that are addresses are not resolved:
    /// the caller must check both.
    ///
    /// # Errors
    ///
    /// [`Fault::Other`] if TLS cannot be set up.
    pub fn reaching(&self, reaches: AllowedAddresses) -> Result<Self, Fault> {
        self.reaching_by(reaches, of_system())
    }

    fn reaching_by(&self, reaches: AllowedAddresses, lookup: AddressLookup) -> Result<Self, Fault> {
        let proxy = self.config.proxy.as_ref().and_then(|proxy| proxy.url().host_str()).map(str::to_lowercase);
        let way_to_proxy = GrantedResolver { reaches: AllowedAddresses::all(), lookup: lookup.clone() };
        let resolver = ProxyAwareResolver { proxy, way_to_proxy, servers: GrantedResolver { reaches, lookup } };
        let builder = builder(&self.config, TlsTrust::of_process()?.tls.clone())?.dns_resolver(Arc::new(resolver));
        let http = builder.build().map_err(|error| cannot_start(&error))?;
        Ok(Self { http, ..self.clone() })
    }
}

/// A resolver that restricts servers, but not the proxy, because a person has configured it.
struct ProxyAwareResolver {
    proxy: Option<String>,
    way_to_proxy: GrantedResolver,
    servers: GrantedResolver,
}

impl Resolve for ProxyAwareResolver {
    fn resolve(&self, name: Name) -> Resolving {
        match &self.proxy {
            Some(proxy) if proxy == name.as_str() => self.way_to_proxy.resolve(name),
            _ => self.servers.resolve(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use http::Method;

    use super::*;
    use crate::{HttpClientConfig, HttpRequest, ProxyUrl, Retries};
    use shelly_core::capability::loopback;
    use shelly_test_support::{TestServer, answer};

    /// Resolves every name to this machine.
    fn here() -> AddressLookup {
        Arc::new(|_| Box::pin(async { Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)]) }))
    }

    #[tokio::test]
    async fn restricted_client_refuses_other_addresses() {
        for (reaches, is_reached) in
            [(AllowedAddresses::public_and([]), false), (AllowedAddresses::public_and(loopback()), true)]
        {
            let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
            let client = HttpClient::new().unwrap().reaching_by(reaches, here()).unwrap();
            let url = server.url.replace("127.0.0.1", "rebound.example").parse().unwrap();
            let request = HttpRequest { retries: Retries::NONE, ..HttpRequest::new(url) };
            let answer = client.exchange(Method::GET, &request, None).await;
            assert_eq!(answer.is_ok(), is_reached, "{answer:?}");
            assert_eq!(server.requests().len(), usize::from(is_reached));
            if let Err(fault) = answer {
                assert!(fault.to_string().contains("none of its addresses is granted"), "{fault}");
            }
        }
    }

    #[tokio::test]
    async fn restricted_client_reaches_proxy_anywhere() {
        let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
        let proxy = ProxyUrl::parse(&server.url.replace("127.0.0.1", "Proxy.Example")).unwrap();
        let config = HttpClientConfig { proxy: Some(proxy), no_proxy: vec![] };
        let client = HttpClient::with(config).unwrap().reaching_by(AllowedAddresses::public_and([]), here()).unwrap();
        let url = "http://server.example/".parse().unwrap();
        let request = HttpRequest { retries: Retries::NONE, ..HttpRequest::new(url) };
        assert!(client.exchange(Method::GET, &request, None).await.is_ok());
        assert!(server.requests()[0].starts_with("GET http://server.example/ "));
    }
}
