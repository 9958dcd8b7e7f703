//! Resolution of names to granted addresses only. Connections go to exactly the addresses that were checked.

use std::{
    error::Error,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    sync::{Arc, LazyLock},
    task::{Context, Poll},
    vec,
};

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use tower_service::Service;

use super::box_error::BoxError;
use shelly_core::{
    capability::{AllowedAddresses, is_localhost},
    limits,
};

/// A function that resolves a name to addresses.
pub(crate) type AddressLookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Returns a lookup that uses the resolver of the operating system.
pub(crate) fn of_system() -> AddressLookup {
    static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(limits::EGRESS_LOOKUPS)));
    in_threads(ALL.clone(), |name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
}

/// Returns a lookup that calls `ask` in threads, limited by these permits. A caller that stops waiting does not
/// end its thread.
fn in_threads(
    permits: Arc<Semaphore>,
    ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Clone + Send + Sync + 'static,
) -> AddressLookup {
    Arc::new(move |name| {
        let (permits, ask) = (permits.clone(), ask.clone());
        Box::pin(async move {
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            let asking = tokio::task::spawn_blocking(move || {
                let found = ask(&name);
                drop(permit);
                found
            });
            asking.await.map_err(io::Error::other)?
        })
    })
}

type ResolvedAddresses = vec::IntoIter<SocketAddr>;

/// A resolver that returns only granted addresses.
#[derive(Clone)]
pub(crate) struct GrantedResolver {
    pub reaches: AllowedAddresses,
    pub lookup: AddressLookup,
}

impl GrantedResolver {
    /// Returns the granted addresses of a name.
    fn addresses(&self, name: &str) -> BoxFuture<'static, Result<ResolvedAddresses, BoxError>> {
        let (name, reaches, lookup) = (name.to_owned(), self.reaches.clone(), self.lookup.clone());
        Box::pin(async move {
            let found = if is_localhost(&name) {
                // Resolved here, because a name server could answer with other addresses.
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            } else {
                lookup(name).await?
            };
            let granted: Vec<_> = found.iter().filter(|address| reaches.holds(**address)).collect();
            if granted.is_empty() && !found.is_empty() {
                return Err(NoGrantedAddress(found).into());
            }
            let addresses: Vec<_> = granted.into_iter().map(|address| SocketAddr::new(*address, 0)).collect();
            Ok(addresses.into_iter())
        })
    }
}

/// Used by the clients of plugins.
impl Service<dns::Name> for GrantedResolver {
    type Response = ResolvedAddresses;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ResolvedAddresses, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Self::Future {
        self.addresses(name.as_str())
    }
}

/// Used by the clients of the host.
impl Resolve for GrantedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.addresses(name.as_str());
        Box::pin(async move { Ok(Box::new(found.await?) as Addrs) })
    }
}

/// The error that none of a name's addresses is granted.
#[derive(Debug)]
pub(super) struct NoGrantedAddress(pub Vec<IpAddr>);

impl fmt::Display for NoGrantedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("none of its addresses is granted")
    }
}

impl Error for NoGrantedAddress {}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn abandoned_dns_lookup_keeps_its_permit() {
        let (answer, answers) = mpsc::channel();
        let (began, begins) = mpsc::channel();
        let (began, answers) = (Mutex::new(began), Arc::new(Mutex::new(answers)));
        let (began, places) = (Arc::new(began), Arc::new(Semaphore::new(1)));
        let lookup = in_threads(places.clone(), move |name| {
            began.lock().unwrap().send(name.to_owned()).unwrap();
            answers.lock().unwrap().recv().map_err(io::Error::other)
        });
        assert!(lookup("one".into()).now_or_never().is_none());
        assert_eq!(begins.recv().unwrap(), "one");
        let mut two = lookup("two".into());
        assert!((&mut two).now_or_never().is_none() && places.available_permits() == 0);
        assert!(begins.try_recv().is_err(), "there is one place");
        for last in [1, 2] {
            answer.send(vec![Ipv4Addr::new(1, 1, 1, last).into()]).unwrap();
        }
        assert_eq!(two.await.unwrap(), [Ipv4Addr::new(1, 1, 1, 2)]);
    }

    #[tokio::test]
    async fn names_are_resolved_by_system() {
        assert_eq!(of_system()("127.0.0.1".into()).await.unwrap(), [Ipv4Addr::LOCALHOST]);
    }
}
