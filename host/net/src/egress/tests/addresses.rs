use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn in_network(url: &str, network: &str) -> HttpGrant {
    HttpGrant::entry(url, &["*".to_owned()], &[network.parse::<IpNet>().unwrap()]).unwrap()
}

fn port(server: &TestServer) -> &str {
    server.url.rsplit(':').next().unwrap()
}

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

#[tokio::test]
async fn rebound_name_is_not_connected() {
    let server = TestServer::start(vec![answer("200 OK", "", "fine"), answer("200 OK", "", "not fine")]).await;
    let url = format!("http://re.example:{}", port(&server));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    // The first lookup returns a granted address, the next ones do not.
    let egress = with_names(in_network(&url, "127.0.0.1/32"), move |name| {
        assert_eq!(name, "re.example");
        vec![loopback(1 + u8::try_from(count.fetch_add(1, Ordering::SeqCst)).unwrap())]
    });
    assert_eq!(text(&egress, get(&url)).await.unwrap(), "fine");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "what was checked is what is connected to");
    let failure = egress.send(get(&url)).await.unwrap_err();
    assert!(matches!(failure.fault, Fault::Denied { .. }), "{failure:?}");
    assert!(!failure.fault.to_string().contains("127."), "a plugin does not learn where names lead: {failure}");
    assert_eq!(failure.facts.address, Some(loopback(2)), "who watches does");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn only_granted_addresses_of_a_name_are_connected() {
    let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
    let url = format!("http://many.example:{}", port(&server));
    let egress = with_names(in_network(&url, "127.0.0.1/32"), |_| vec![loopback(2), loopback(1), loopback(3)]);
    let response = egress.send(get(&url)).await.unwrap();
    assert_eq!((response.status, response.facts.address), (200, Some(loopback(1))));
}

#[tokio::test]
async fn private_addresses_of_names_need_grant() {
    let private =
        ["10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.1.1", "::1", "fd00::1", "::ffff:10.0.0.1", "fe80::1"];
    for address in private {
        let egress = with_names(granted(&["https://*", "http://*"]), move |_| vec![address.parse().unwrap()]);
        for url in ["http://in.example", "https://in.example", "http://in.example."] {
            assert!(denied(&egress, get(url)).await.starts_with("in.example"), "{address}");
        }
    }
}

#[tokio::test]
async fn address_in_url_is_checked_in_every_notation() {
    let server = TestServer::start(vec![]).await;
    let (port, everybody) = (port(&server), format!("http://*:{}", port(&server)));
    let egress = with_names(granted(&[&everybody]), |name| panic!("`{name}` is looked up"));
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "0.0.0.0",
        "0",
        "[::]",
    ] {
        denied(&egress, get(format!("http://{host}:{port}/"))).await;
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn localhost_is_resolved_without_lookup() {
    for name in ["localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.localhost."] {
        let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
        let url = format!("http://{name}:{}", port(&server));
        let egress = with_names(granted(&[&url]), |name| panic!("`{name}` is looked up"));
        assert_eq!(text(&egress, get(&url)).await.unwrap(), "fine", "{name}");
        let everybody =
            with_names(granted(&[&format!("http://*:{}", port(&server))]), |name| panic!("`{name}` is looked up"));
        assert!(denied(&everybody, get(&url)).await.contains("resolves to no address"), "{name}");
    }
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_unavailable() {
    let egress = with_names(granted(&["http://*"]), |_| Vec::new());
    let fault = egress.send(get("http://a.example")).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
}

/// Starts a server that answers every request on every connection, and counts the connections.
async fn patient_server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, connections) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                while until(&mut connection, "\r\n\r\n").await.contains("\r\n\r\n") {
                    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine").await.unwrap();
                }
            });
        }
    });
    (port, connections)
}

#[tokio::test]
async fn connection_is_reused_only_by_the_same_plugin() {
    let (port, connections) = patient_server().await;
    let url = format!("http://127.0.0.1:{port}");
    let (one, two) = (egress(&[&url]), egress(&[&url]));
    for _ in 0..3 {
        assert_eq!(text(&one, get(&url)).await.unwrap(), "fine");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    text(&two, get(&url)).await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    text(&one.clone(), get(&url)).await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn connection_is_not_reused_for_ungranted_address() {
    let (port, connections) = patient_server().await;
    let (inner, outer) = (format!("http://in.example:{port}/in"), format!("http://in.example:{port}/out"));
    let egress = with_names(in_network(&inner, "127.0.0.0/8").join(&granted(&[&outer])), |_| vec![loopback(1)]);
    assert_eq!(text(&egress, get(&inner)).await.unwrap(), "fine");
    denied(&egress, get(&outer)).await;
    assert_eq!(text(&egress, get(&inner)).await.unwrap(), "fine");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn clients_are_bounded() {
    let clients = EgressClients::default();
    for third in 0..=u8::try_from(limits::EGRESS_CLIENTS).unwrap() {
        let url = Url::parse(&format!("http://10.0.{third}.1")).unwrap();
        clients.get(granted(&[url.as_str()]).reaches("GET", &url)).unwrap();
        assert!(clients.len() <= limits::EGRESS_CLIENTS);
    }
    assert_eq!(clients.len(), 1);
}
