//! Addresses of servers: their parts, and what they reveal.

use std::net::IpAddr;

use shelly_core::error::Fault;
use url::Url;

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
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        // For schemes other than `http` and `https`, the URL parser does not recognize addresses.
        Some(url::Host::Domain(name)) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
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
