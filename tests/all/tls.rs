//! Servers with untrusted certificates, servers that do not speak TLS, and names that do not resolve: their messages, and
//! how such a server is trusted.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, LazyLock},
    thread,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedKey, IsCa, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};

use crate::{
    bad_input::{FOUR, answer},
    support::{Place, Ran},
};

/// The certificate of the servers: it is for this machine, and only its own key has signed it.
static SELF_SIGNED: LazyLock<CertifiedKey<KeyPair>> = LazyLock::new(self_signed);
/// Of an authority that has signed nothing here: what a machine trusts does not matter.
static ANOTHER: LazyLock<CertifiedKey<KeyPair>> = LazyLock::new(self_signed);

fn self_signed() -> CertifiedKey<KeyPair> {
    let mut params = CertificateParams::new(["localhost", "127.0.0.1"].map(str::to_owned)).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signing_key = KeyPair::generate().unwrap();
    CertifiedKey { cert: params.self_signed(&signing_key).unwrap(), signing_key }
}

/// A server on loopback that speaks TLS, with a certificate that it has signed itself, and says the same to all requests.
fn encrypted(status: &str, body: &str) -> u16 {
    let certificate = SELF_SIGNED.cert.der().clone();
    let key = PrivateKeyDer::try_from(SELF_SIGNED.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, said) = (listener.local_addr().unwrap().port(), answer(status, body));
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), connection);
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                request.extend_from_slice(&buffer[..count]);
                let text = String::from_utf8_lossy(&request).to_lowercase();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
                if body.len() >= length.unwrap_or(0) {
                    let _ = stream.write_all(said.as_bytes());
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                    break;
                }
            }
        }
    });
    port
}

fn place(url: &str) -> Place {
    let place = Place::new();
    place.file("ca.pem", SELF_SIGNED.cert.pem());
    place.file("another.pem", ANOTHER.cert.pem());
    place.file(
        "c.yaml",
        format!(
            "providers: [{{name: far, kind: openai, model: m, api_key: x, base_url: '{url}/v1'}}]\nagents: [{{name: a}}]\n\
             mcp_servers: [{{name: tools, url: '{url}/mcp'}}]\n"
        ),
    );
    place
}

/// A run that trusts whom this file names.
fn with(place: &Place, arguments: &[&str], certificates: &str) -> (Ran, Duration) {
    let mut command = place.command(arguments);
    command.env("SSL_CERT_FILE", certificates);
    let began = Instant::now();
    (place.ran(command.output().unwrap()), began.elapsed())
}

const RUN: [&str; 4] = ["run", "--config", "c.yaml", "hi"];
const SERVERS: [&str; 5] = ["mcp", "list", "--config", "c.yaml", "tools"];

#[test]
#[cfg(target_os = "linux")]
fn self_signed_server_is_refused_until_trusted() {
    for host in ["localhost", "127.0.0.1"] {
        let port = encrypted("200 OK", FOUR);
        let place = place(&format!("https://{host}:{port}"));
        let (ran, _) = with(&place, &RUN, "another.pem");
        assert_eq!(ran.code, 4, "{}", ran.shown());
        let says = format!(
            "the certificate of {host}:{port} is not accepted: it is self-signed and not trusted by this machine"
        );
        assert!(ran.stderr.contains(&says), "{}", ran.shown());
        assert!(ran.stderr.contains("SSL_CERT_FILE") && !ran.stderr.contains("settings"), "{}", ran.shown());
        let (ran, _) = with(&place, &RUN, "ca.pem");
        assert_eq!((ran.code, &*ran.stdout), (0, "Four.\n"), "{}", ran.shown());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn mcp_servers_use_the_same_certificate_file() {
    let port = encrypted("404 Not Found", "{}");
    let place = place(&format!("https://localhost:{port}"));
    let (ran, _) = with(&place, &SERVERS, "another.pem");
    let says = format!("the certificate of localhost:{port} is not accepted: it is self-signed");
    assert!(ran.shown().contains(&says) && ran.shown().contains("SSL_CERT_FILE"), "{}", ran.shown());
    let (ran, _) = with(&place, &SERVERS, "ca.pem");
    assert!(ran.shown().contains("404") && !ran.shown().contains("certificate"), "{}", ran.shown());
}

/// A server on loopback without TLS, which refuses what is no HTTP as servers do: at once.
fn plain() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(answer("400 Bad Request", "no HTTP").as_bytes());
        }
    });
    port
}

#[test]
fn wrong_url_scheme_is_reported_without_retries() {
    let asked_with_tls = place(&format!("https://127.0.0.1:{}", plain()));
    let asked_without = place(&format!("http://127.0.0.1:{}", encrypted("200 OK", FOUR)));
    for (place, says, mend) in [
        (asked_with_tls, "does not speak TLS", "write http:// instead of https:// in its address"),
        (asked_without, "does not speak HTTP", "write https:// instead of http:// in its address"),
    ] {
        let (ran, took) = with(&place, &RUN, "another.pem");
        assert!(ran.code == 4 && ran.stderr.contains(says) && ran.stderr.contains(mend), "{}", ran.shown());
        assert!(took < Duration::from_secs(5), "it is not asked again: {took:?}");
    }
}

#[test]
fn unresolvable_host_error_does_not_blame_the_key() {
    let place = place("https://nowhere.invalid");
    place.file(
        "c.yaml",
        "providers: [{name: far, kind: openai, model: m, api_key: x, retries: 0, base_url: \
         'https://nowhere.invalid/v1'}]\nagents: [{name: a}]\n",
    );
    let (ran, _) = with(&place, &RUN, "another.pem");
    assert_eq!(ran.code, 4, "{}", ran.shown());
    for says in ["cannot connect to nowhere.invalid: the name cannot be resolved", "check the host in its address"] {
        assert!(ran.stderr.contains(says) && !ran.stderr.contains("key"), "{}", ran.shown());
    }
}
