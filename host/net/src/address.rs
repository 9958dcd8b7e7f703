//! Addresses of servers: their parts, and what they reveal.

use std::net::IpAddr;

use shelly_core::{capability::is_public, error::Fault};
use url::{Host, Url};

/// Returns the address of an API: `base` with the segments of `path` appended to its path. Its query is kept.
///
/// # Errors
///
/// [`Fault::Invalid`] if `base` is not an `http` or `https` URL or contains a credential. The message does not quote it.
pub fn endpoint(base: &str, path: &[&str]) -> Result<Url, Fault> {
    let mut url = Url::parse(base).map_err(|error| Fault::invalid(format!("invalid base URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::invalid("invalid base URL; begin it with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::invalid("the base URL has a user name or password; move it into a secret"));
    }
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    Ok(url)
}

/// Returns the name of a server for messages: the host, and the port unless it is the default. Never a path, a query or a
/// credential.
pub fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    url.port().map_or_else(|| host.into(), |port| format!("{host}:{port}"))
}

/// Returns `true` if others in the network can read traffic to this address: it is not encrypted, and leaves this machine.
pub fn is_readable_on_the_way(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

/// Returns `true` if the address is on this machine, whatever listens there.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // For schemes other than `http` and `https`, the URL parser does not recognize addresses.
        Some(Host::Domain(name)) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

/// Returns `true` if the address is on this machine or in a private network. Only an address tells: a name other than
/// `localhost` may lead anywhere.
pub fn is_private(url: &Url) -> bool {
    let is_special = match url.host() {
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        Some(Host::Domain(_)) | None => false,
    };
    is_special || is_loopback(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_checked_and_never_quoted() {
        let url = endpoint("http://localhost:11434/v1/?version=1", &["chat", "completions"]).unwrap();
        assert_eq!(url.as_str(), "http://localhost:11434/v1/chat/completions?version=1");
        assert_eq!(endpoint("https://api.openai.com/v1", &["models"]).unwrap().path(), "/v1/models");
        assert_eq!(origin(&url), "localhost:11434");
        for bad in ["", "secret", "ftp://secret/v1", "http://user:secret@host/v1", "file:///secret"] {
            let fault = endpoint(bad, &["models"]).unwrap_err();
            assert!(matches!(fault, Fault::Invalid { .. }) && !fault.to_string().contains("secret "), "{fault}");
        }
    }

    #[test]
    fn only_addresses_of_private_networks_are_private() {
        for (url, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.1:11434/v1", true),
            ("http://10.0.0.7:8000/v1", true),
            ("http://192.168.1.9/v1", true),
            ("http://[fd00::1]:8080/v1", true),
            ("http://[::1]/v1", true),
            ("https://1.1.1.1/v1", false),
            ("https://[2606:4700::1111]/v1", false),
            ("https://api.openai.com/v1", false),
            ("http://gpu-box:8000/v1", false),
        ] {
            assert_eq!(is_private(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn loopback_is_recognized_in_every_notation() {
        for (url, expected) in [
            ("http://localhost:1", true),
            ("http://127.3.2.1", true),
            ("http://[::1]:1", true),
            ("socks5://127.0.0.1:1080", true),
            ("socks5://10.0.0.1:1080", false),
            ("http://localhost.example", false),
            ("http://10.0.0.1", false),
            ("mailto:a@localhost", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
