//! Credentials: the host adds them where they belong and refuses them elsewhere, and they are nowhere in a guest.

use std::sync::Arc;

use serde_json::json;
use shelly_host::{
    capability::{Ceiling, CeilingBound, Grant, HttpGrant},
    net::{AuthHeader, Secret, egress::Credential},
    plugin::PluginSettings,
};

use super::{Answer, DOORS, Guest, OWN, Server, WASI, http};

/// In large and small letters, as most are.
const KEY: &str = "sk-Never-Shown-42";

fn credential(name: &str, header: &str, key: &str, audience: &[&str]) -> Arc<Credential> {
    let auth = AuthHeader { header: header.into(), scheme: String::new(), key: Secret::new(key) };
    let audience = audience.iter().fold(HttpGrant::default(), |all, url| all.join(&HttpGrant::all_below(url).unwrap()));
    Arc::new(Credential::new(name, &auth, audience).unwrap())
}

/// Grants all of these requests and credentials.
fn give(settings: &mut PluginSettings, entries: &[&str], credentials: &[Arc<Credential>]) {
    settings.grant.http = http(entries);
    settings.grant.credentials = credentials.iter().map(|credential| credential.name().to_owned()).collect();
    settings.credentials = credentials.to_vec();
}

/// A text as a guest is told to look for it: it must not be in its memory because of that.
pub fn turned(text: &str) -> String {
    text.bytes().map(|byte| format!("{:02x}", byte ^ 0x0f)).collect()
}

#[tokio::test]
async fn guest_credential_is_sent_only_to_its_audience() {
    let (a, b) = (Server::echo().await, Server::echo().await);
    let audience = format!("{}/v1", a.url);
    let all = [credential("one", "x-key", KEY, &[&audience]), credential("two", "x-two", "key-of-b", &[&b.url])];
    let ada = Guest::with(OWN, "ada", |settings| give(settings, &[&a.url, &b.url], &all)).await;
    let asked = |url: &str, name: &str| json!({ "url": url, "credential": name });
    for (url, name, sent) in [
        (format!("{}/v1", a.url), "one", true),
        (format!("{}/v1/x?y", a.url), "one", true),
        (b.url.clone(), "two", true),
        (a.url.clone(), "one", false),
        (format!("{}/v1/../v2", a.url), "one", false),
        (format!("{}/v1%2f..", a.url), "one", false),
        (format!("{}/v10", a.url), "one", false),
        (b.url.clone(), "one", false),
        (format!("{}/v1", a.url), "two", false),
        (format!("{}/v1", a.url), "three", false),
        (format!("{}/v1", a.url), "ONE", false),
        (format!("{}/v1", a.url), "", false),
    ] {
        let (before, fetched) = (a.heard().len() + b.heard().len(), ada.fetch(asked(&url, name)).await);
        assert_eq!((fetched.status.is_some(), fetched.is_denied()), (sent, !sent), "{url}, {name}: {fetched:?}");
        let told = fetched.told();
        let expected = if sent { ("answered", Some(name)) } else { ("refused", None) };
        assert_eq!((told.outcome, told.credential.as_deref()), expected, "{url}, {name}");
        assert_eq!(a.heard().len() + b.heard().len(), before + usize::from(sent), "{url}, {name}");
    }
    let sent = |server: &Server, name: &str| {
        server.heard().iter().filter_map(|heard| heard.header(name).map(String::from)).collect::<Vec<_>>()
    };
    assert_eq!((sent(&a, "x-key"), sent(&a, "x-two")), (vec![KEY.to_owned(); 2], vec![]));
    assert_eq!((sent(&b, "x-key"), sent(&b, "x-two")), (vec![], vec!["key-of-b".to_owned()]));
    // Without a word none is sent.
    ada.get(&audience).await;
    assert_eq!(a.last().header("x-key"), None);
}

#[tokio::test]
async fn plugin_sees_only_the_names_of_its_own_credentials() {
    let server = Server::echo().await;
    let all = ["one", "two", "three"].map(|name| credential(name, "x-key", KEY, &[&server.url]));
    let ada = Guest::with(OWN, "ada", |settings| give(settings, &[&server.url], &all[..2])).await;
    let bob = Guest::with(OWN, "bob", |settings| give(settings, &[&server.url], &all[2..])).await;
    let eve = Guest::with(OWN, "eve", |settings| {
        // They are there, but not granted.
        give(settings, &[&server.url], &all);
        settings.grant.credentials = Default::default();
    })
    .await;
    let ann = Guest::with(OWN, "ann", |settings| {
        // They are granted, but not by who started it.
        give(settings, &[&server.url], &all);
        let grant = Grant { credentials: ["two".to_owned()].into_iter().collect(), ..settings.grant.clone() };
        settings.ceiling =
            Ceiling::of("agents.lead.delegable", CeilingBound { grant: Some(grant), ..CeilingBound::default() });
    })
    .await;
    for (guest, names) in [(&ada, "one two"), (&bob, "three"), (&eve, ""), (&ann, "two")] {
        assert_eq!(guest.call("credentials", &json!({})).await.0, names);
        for name in ["one", "two", "three"] {
            let fetched = guest.fetch(json!({ "url": server.url, "credential": name })).await;
            let is_own = names.split(' ').any(|own| own == name);
            assert_eq!((fetched.status.is_some(), fetched.is_denied()), (is_own, !is_own), "{names}: {fetched:?}");
            let others = ["one", "two", "three"].into_iter().filter(|other| *other != name);
            for other in others.filter(|other| !names.contains(other)) {
                let mut words = fetched.why().split(|c: char| !c.is_alphanumeric());
                assert!(words.all(|word| word != other), "it is told of `{other}`: {fetched:?}");
            }
        }
    }
}

/// A guest cannot name a credential through `wasi:http`: the host adds the one of the target, and nothing else.
#[tokio::test]
async fn wasi_http_adds_the_credential_of_the_target() {
    let (a, b) = (Server::echo().await, Server::echo().await);
    let all = [
        credential("elsewhere", "x-elsewhere", "another-one", &["http://127.0.0.1:1"]),
        credential("one", "x-key", KEY, &[&format!("{}/v1", a.url)]),
        credential("two", "x-two", "key-of-two", &[&a.url]),
    ];
    let guest = Guest::with(WASI, "ada", |settings| give(settings, &[&a.url, &b.url], &all)).await;
    for (url, one, two) in [("/v1/x", Some(KEY), None), ("/v2", None, Some("key-of-two"))] {
        let fetched = guest.get(&format!("{}{url}", a.url)).await;
        let expected = if one.is_some() { "one" } else { "two" };
        assert_eq!((fetched.status, fetched.told().credential.as_deref()), (Some(200), Some(expected)), "{fetched:?}");
        assert_eq!((a.last().header("x-key"), a.last().header("x-two")), (one, two), "{url}");
    }
    assert_eq!(guest.get(&b.url).await.told().credential, None);
    assert!(["x-key", "x-two", "x-elsewhere"].iter().all(|name| b.last().header(name).is_none()));
}

/// A guest does not put its own word where the host's credential goes.
#[tokio::test]
async fn guest_cannot_set_the_header_of_a_credential() {
    let (a, b) = (Server::echo().await, Server::echo().await);
    let all = [credential("one", "x-key", KEY, &[&a.url])];
    for door in DOORS {
        let guest = Guest::with(door, "ada", |settings| give(settings, &[&a.url, &b.url], &all)).await;
        let before = a.heard().len();
        for name in ["x-key", "X-Key", "X-KEY"] {
            let fetched = guest.fetch(json!({ "url": a.url, "headers": [[name, "mine"]] })).await;
            assert!(fetched.is_denied() && fetched.told().outcome == "refused", "{door}: {fetched:?}");
        }
        assert_eq!(a.heard().len(), before, "{door}");
        let fetched = guest.fetch(json!({ "url": b.url, "headers": [["x-key", "mine"]] })).await;
        assert_eq!((fetched.status, b.last().header("x-key")), (Some(200), Some("mine")), "{door}");
    }
}

#[tokio::test]
async fn credential_echoed_by_a_server_never_reaches_the_guest() {
    let server = Server::start(|heard| {
        let key = heard.header("x-key").unwrap_or_default();
        let small = key.to_lowercase();
        match heard.path() {
            "/body" => Answer::echo(heard),
            "/chunks" => Answer::in_chunks("200 OK", &format!("It is {key}, said-by-the-server.")),
            "/error" => Answer::of("401 No", format!("no: {key}")),
            "/headers" => {
                Answer::of(&format!("200 {key}\r\nx-echo: {key}\r\nset-cookie: a={key}; b\r\n{small}: x"), "")
            }
            "/location" => Answer::redirect(302, &format!("http://{small}.example/{key}?{key}")),
            "/name" => Answer::redirect(302, &format!("http://{key}/")),
            "/trailer" => Answer::Says(
                format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n0\r\nx: {key}\r\n\r\n")
                    .into(),
            ),
            "/cut" => Answer::Ends(format!("HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nIt is {key}").into()),
            "/noise" => Answer::Ends(format!("{key} {key}\r\n\r\n").into()),
            "/encoding" => Answer::of(&format!("200 OK\r\ncontent-encoding: {key}"), "x"),
            // Nine times over the border of what is read at once.
            _ => Answer::of("200 OK", [vec![b'x'; 65_530].as_slice(), key.as_bytes()].concat().repeat(9)),
        }
    })
    .await;
    let all = [credential("one", "x-key", KEY, &[&server.url])];
    for door in DOORS {
        let guest = Guest::with(door, "ada", |settings| give(settings, &[&server.url, "http://*"], &all)).await;
        let ask = async |path: &str, look_for: &str| {
            let mut asked = json!({ "url": format!("{}/{path}", server.url), "look_for": turned(look_for) });
            if door == OWN {
                asked["credential"] = "one".into();
            }
            let fetched = guest.fetch(asked).await;
            assert_eq!(server.last().header("x-key"), Some(KEY), "{door}, {path}: it was not sent");
            fetched
        };
        let paths = [
            "body", "chunks", "error", "headers", "location", "name", "trailer", "cut", "noise", "encoding", "borders",
        ];
        for path in paths {
            for part in ["Never-Shown-42", "never-shown-42"] {
                let fetched = ask(path, part).await;
                assert_eq!(fetched.found, Some(0), "{door}, {path}: {fetched:?}");
                let shown = format!("{fetched:?} {}", fetched.events).to_lowercase();
                assert!(!shown.contains("never-shown"), "{door}, {path}: {shown}");
            }
        }
        // It would find it.
        let fetched = ask("chunks", "said-by-the-server").await;
        assert!(fetched.found > Some(0) && fetched.body == "It is ***, said-by-the-server.", "{door}: {fetched:?}");
        assert_eq!(ask("headers", "x").await.header("x-echo"), Some("***"), "{door}");
        let fetched = ask("borders", "x").await;
        assert_eq!(fetched.bytes, 9 * (65_530 + 3), "{door}");
    }
}
