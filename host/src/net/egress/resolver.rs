//! Which addresses a name leads to: only those that are granted. What is connected to is what was checked.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::capability::{Reaches, is_localhost};

/// Asks for the addresses of a name.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Asks whom the operating system asks.
pub(super) fn of_system() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Resolves names to the granted ones of their addresses.
pub(super) struct Resolver {
    pub reaches: Reaches,
    pub lookup: Lookup,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (name, reaches, lookup) = (name.as_str().to_owned(), self.reaches.clone(), self.lookup.clone());
        Box::pin(async move {
            let found = if is_localhost(&name) {
                // Nobody else is asked for it: it could be told otherwise.
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            } else {
                lookup(name).await?
            };
            let granted: Vec<_> = found.iter().filter(|address| reaches.holds(**address)).collect();
            if granted.is_empty() && !found.is_empty() {
                return Err(NotGranted(found).into());
            }
            let addresses: Vec<_> = granted.into_iter().map(|address| SocketAddr::new(*address, 0)).collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// None of the addresses of a name is granted.
#[derive(Debug)]
pub(super) struct NotGranted(pub Vec<IpAddr>);

impl fmt::Display for NotGranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("none of its addresses is granted")
    }
}

impl std::error::Error for NotGranted {}
