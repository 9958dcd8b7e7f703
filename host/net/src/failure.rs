//! The reasons why a server was not reached, in messages without paths, queries or credentials.

use std::{error::Error, io};

use super::{proxy::ProxyUrl, status, tls};
use shelly_core::{
    error::{Fault, without_number},
    limits,
};

/// The failure of one attempt. It is repeated only if [`Fault::is_transient`] says so too.
#[derive(Debug)]
pub struct FailedAttempt {
    /// The failure, as its reader will be told.
    pub fault: Fault,
    /// `true` if another attempt is worthwhile.
    pub again: bool,
}

impl From<Fault> for FailedAttempt {
    fn from(fault: Fault) -> Self {
        Self { fault, again: true }
    }
}

/// Returns `true` if a name could not be resolved.
fn is_of_lookup(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|cause| cause.to_string() == "dns error")
}

/// Returns `true` if the response was not HTTP, as from a server that expects TLS.
fn is_no_http(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|cause| cause.to_string() == "invalid HTTP version parsed")
}

pub(super) fn is_refused(error: &(dyn Error + 'static)) -> bool {
    sources(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

const NOT_ACCEPTED: &str = "is not accepted";
pub(super) const CANNOT_CHECK: &str = "cannot be checked";
const NO_ROOTS: &str =
    "install the root certificates of your system (ca-certificates), or name a file of them in SSL_CERT_FILE";
const NO_TLS: &str = "does not speak TLS";
const NO_HTTP: &str = "does not speak HTTP";
const NO_NAME: &str = "the name cannot be resolved";

/// Returns advice for a server that was not reached, if the fault has a known cause; otherwise `None`.
pub fn mend(fault: &Fault) -> Option<&'static str> {
    let message = fault.to_string();
    let mends = [
        (CANNOT_CHECK, NO_ROOTS),
        (
            NOT_ACCEPTED,
            "if you trust the server, name a PEM file with its certificate, or with that of its authority, in the environment \
             variable SSL_CERT_FILE",
        ),
        (NO_TLS, "if the server does not use TLS, write http:// instead of https:// in its address"),
        (NO_HTTP, "if the server uses TLS, write https:// instead of http:// in its address"),
        (NO_NAME, "check the host in its address, and this machine's network and name servers"),
    ];
    let is_ours = matches!(fault, Fault::Other { .. } | Fault::Unavailable { .. });
    mends.into_iter().find(|(words, _)| is_ours && message.contains(words)).map(|(_, mend)| mend)
}

/// An error of an HTTP client that got no response.
pub(super) trait ExchangeError: Error + 'static {
    /// Returns `true` if no connection was made.
    fn is_of_connecting(&self) -> bool;
    /// Returns `true` if the connection timed out.
    fn is_of_time(&self) -> bool;
}

impl ExchangeError for reqwest::Error {
    fn is_of_connecting(&self) -> bool {
        self.is_connect()
    }

    fn is_of_time(&self) -> bool {
        self.is_timeout()
    }
}

impl ExchangeError for hyper_util::client::legacy::Error {
    fn is_of_connecting(&self) -> bool {
        self.is_connect()
    }

    fn is_of_time(&self) -> bool {
        cause::<io::Error>(self).is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }
}

/// Returns the fault for a missing response. `proxy` is the proxy through which the request may have gone.
pub(super) fn not_reached(origin: &str, proxy: Option<&ProxyUrl>, error: &impl ExchangeError) -> Fault {
    let why = root(error);
    let through = proxy.map(|proxy| format!(" through the proxy {proxy}")).unwrap_or_default();
    // Another attempt would meet the same certificate.
    match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            return Fault::other(format!("the certificate of {origin} {NOT_ACCEPTED}: {}", tls::why_refused(why)));
        }
        // Nor would the server start to use TLS.
        Some(rustls::Error::InvalidMessage(_)) => {
            return Fault::other(format!("{origin} {NO_TLS}: {why}"));
        }
        _ => {}
    }
    if error.is_of_time() {
        let time = limits::CONNECT_TIME;
        return unavailable(format!("{origin} does not answer{through}: no connection within {time:?}"));
    }
    if error.is_of_connecting() {
        // The library's message for a 407 response that came before the server was reached.
        if proxy.is_some() && why.contains("proxy authorization required") {
            return Fault::Denied {
                message: format!("cannot connect to {origin}{through}: the proxy requires a user and a password"),
            };
        }
        // The name of the proxy or the server.
        if is_of_lookup(error) {
            return unavailable(format!("cannot connect to {origin}{through}: {NO_NAME}: {why}"));
        }
        return unavailable(format!("cannot connect to {origin}{through}: {why}"));
    }
    if is_no_http(error) {
        return Fault::other(format!("{origin} {NO_HTTP}: {why}"));
    }
    unavailable(format!("the connection to {origin} broke before the response: {why}"))
}

/// Returns the TLS error among the causes of `error`.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref().or_else(|| cause(error))
}

/// Returns the message of the innermost cause. The outer ones repeat the URL and add nothing.
pub(super) fn root(error: &(dyn Error + 'static)) -> String {
    // Nothing of reqwest's own error is shown, because it contains the whole URL.
    let innermost = sources(error).last().map_or_else(|| "the HTTP exchange failed".into(), ToString::to_string);
    status::shown(&without_number(&innermost), &[], limits::ERROR_BYTES)
}

/// Returns the causes of an error, without the error itself. I/O errors hide the errors they wrap from [`Error::source`].
fn sources<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let source = |error: &'a (dyn Error + 'static)| {
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped as _))
    };
    std::iter::successors(source(error), move |&error| source(error))
}

/// Returns `true` if the received data cannot be decoded, as opposed to a broken connection.
pub(super) fn is_of_decoder(error: &reqwest::Error) -> bool {
    // The decoder's own errors are I/O errors; those of the connection below are the HTTP library's.
    let cause = sources(error).find(|cause| !cause.is::<reqwest::Error>());
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|error| error.kind() != io::ErrorKind::UnexpectedEof)
}

/// Returns the first cause of this type.
pub(super) fn cause<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    sources(error).find_map(|cause| cause.downcast_ref())
}

pub(super) fn cannot_start(error: &reqwest::Error) -> Fault {
    Fault::other(format!("the HTTP client cannot be set up: {}", root(error)))
}

pub(super) fn timed_out(origin: &str) -> Fault {
    Fault::Timeout { message: format!("{origin} timed out") }
}

pub(super) fn unavailable(message: String) -> Fault {
    Fault::Unavailable { message, after: None }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use tokio::time::Instant;

    use url::Url;

    use super::*;
    use crate::{HttpClient, HttpRequest, Retries, RetryObserver};

    #[test]
    fn tls_error_is_found_among_causes() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let error = io::Error::other(io::Error::other(tls.clone()));
        assert_eq!(tls_error(&error), Some(&tls));
        assert_eq!(tls_error(&io::Error::other("other")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_tls_handshake_times_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                held.push(connection);
            }
        });
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let observer =
            RetryObserver::new(move |pause| tell.lock().unwrap().push((pause.attempt, pause.fault.to_string())));
        let url = Url::parse(&format!("https://{address}/")).unwrap();
        let request = HttpRequest {
            retries: Retries { first_pause: Duration::ZERO, ..Retries::times(1) },
            observer,
            ..HttpRequest::new(url)
        };
        let client = HttpClient { no_roots: None, ..HttpClient::new().unwrap() };
        let begun = Instant::now();
        let fault = client.get(&request).await.unwrap_err();
        assert!(begun.elapsed() < limits::CONNECT_TIME * 3, "{:?}", begun.elapsed());
        let says = format!("{address} does not answer: no connection within {:?}", limits::CONNECT_TIME);
        assert_eq!(fault.to_string(), says);
        assert_eq!(*told.lock().unwrap(), [(2, says)]);
        server.abort();
    }
}
