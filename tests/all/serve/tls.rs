//! The server with a certificate.

use std::fs;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName},
};

use super::*;

/// Writes a certificate and its key to `cert.pem` and `key.pem`. Returns the certificate.
fn write_certificate(place: &Place) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    place.file("cert.pem", cert.pem());
    place.file("key.pem", signing_key.serialize_pem());
    cert.der().clone()
}

/// Sends a request over TLS to a server with this certificate, and returns all that comes.
fn ask(address: &str, certificate: &CertificateDer<'static>, request: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let tls = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(tls, stream);
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn server_speaks_tls_with_the_certificate_of_its_files() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let certificate = write_certificate(&place);
    let options = ["serve", "--config", "shelly.yaml", "--listen", "0.0.0.0:0", "--a2a", "--mcp"];
    let options = [&options[..], &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]].concat();
    let served = HttpServed::of(place.command(&options));
    let address = served.address.replace("0.0.0.0", "127.0.0.1");
    let head = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{more}\r\n");
    let healthy = ask(&address, &certificate, &head("/healthz", "host: localhost\r\n")).unwrap();
    assert!(healthy.starts_with("HTTP/1.1 200") && healthy.contains("\"status\":\"ok\""), "{healthy}");
    let runs = ask(&address, &certificate, &head("/api/v1/runs", &served.known())).unwrap();
    assert!(runs.starts_with("HTTP/1.1 200"), "{runs}");
    let unknown = ask(&address, &certificate, &head("/api/v1/runs", "host: localhost\r\n")).unwrap();
    assert!(unknown.starts_with("HTTP/1.1 401"), "{unknown}");
    let card = ask(&address, &certificate, &head("/.well-known/agent-card.json", "host: localhost\r\n")).unwrap();
    assert!(card.contains("https://localhost/a2a/helper"), "{card}");

    // A client that does not speak TLS, and one that says nothing, hold up nobody.
    let silent = TcpStream::connect(&address).unwrap();
    let mut plain = TcpStream::connect(&address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "nothing is answered in the open");
    let another = ask(&address, &certificate, &head("/healthz", "host: localhost\r\n")).unwrap();
    assert!(another.starts_with("HTTP/1.1 200"), "{another}");
    drop(silent);
    let (code, said) = served.terminate();
    assert!(code == 143 && said.contains("serving MCP clients at https://"), "{code} {said}");
}

#[test]
fn versions_of_tls_before_1_2_are_refused() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let certificate = write_certificate(&place);
    let options =
        ["serve", "--config", "shelly.yaml", "--listen", ":0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let served = HttpServed::of(place.command(&options));
    for version in [[3_u8, 0], [3, 1], [3, 2]] {
        // The version, random bytes, no session, one suite (RSA with AES-128), no compression.
        let hello = [&version[..], &[7; 32], &[0, 0, 2, 0, 0x2f, 1, 0]].concat();
        let handshake = [&[1, 0, 0, hello.len() as u8][..], &hello].concat();
        let record = [&[0x16, 3, 1, 0, handshake.len() as u8][..], &handshake].concat();
        let mut stream = served.connect();
        stream.write_all(&record).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer.first(), Some(&0x15), "an alert, and no handshake: {version:?} {answer:?}");
    }
    let request = "GET /healthz HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n";
    assert!(ask(&served.address, &certificate, request).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn certificates_that_cannot_be_used_are_refused() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    write_certificate(&place);
    let key = fs::read_to_string(place.path().join("key.pem")).unwrap();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    place.file("encrypted.pem", encrypted);
    fs::rename(place.path().join("cert.pem"), place.path().join("first.pem")).unwrap();
    write_certificate(&place);
    place.file("other.pem", key);
    for (certificate, key, says) in [
        ("none.pem", "key.pem", "no such file or folder"),
        ("cert.pem", "encrypted.pem", "is encrypted"),
        ("cert.pem", "cert.pem", "has no private key in PEM"),
        ("cert.pem", "other.pem", "is not that of the certificate in"),
        ("first.pem", "key.pem", "is not that of the certificate in"),
    ] {
        let options =
            ["serve", "--config", "shelly.yaml", "--listen", ":0", "--tls-cert", certificate, "--tls-key", key];
        let refused = place.run(&options);
        assert!(refused.code == 2 && refused.stderr.contains(says), "{says}: {}", refused.shown());
        assert!(refused.stderr.contains("cannot serve over TLS"), "{}", refused.shown());
    }
    let half = place.run(&["serve", "--config", "shelly.yaml", "--tls-cert", "cert.pem"]);
    assert!(half.code == 2 && half.stderr.contains("--tls-key"), "{}", half.shown());
}
