use serde_json::json;
use shelly_test_support::{CannedResponse, TestServer, answer};

use super::*;

/// Returns a name in the registry at this address.
fn reference(server: &TestServer) -> OciReference {
    let host = server.url.strip_prefix("http://").unwrap();
    OciReference::parse(&format!("oci://{host}/me/dice:1")).unwrap().unwrap()
}

fn client() -> RegistryClient {
    RegistryClient::new(HttpClient::new().unwrap(), RegistryLogins::default())
}

/// Returns a manifest with one component of this size, and a config of this one.
fn manifest(component: u64, config: u64) -> String {
    let digest = Sha256Digest::of("code").to_string();
    json!({
        "schemaVersion": 2,
        "config": {"mediaType": CONFIG_TYPE, "digest": digest, "size": config},
        "layers": [{"mediaType": COMPONENT_TYPE, "digest": digest, "size": component}],
    })
    .to_string()
}

fn ok(body: &str) -> CannedResponse {
    answer("200 OK", "", body)
}

/// Pulls from a registry that answers so, and returns the failure.
async fn failure(answers: Vec<CannedResponse>) -> String {
    let server = TestServer::start(answers).await;
    let report = client().pull(&reference(&server)).await.unwrap_err().report();
    report.to_string().replace(server.url.strip_prefix("http://").unwrap(), "HOST")
}

#[tokio::test]
async fn answers_of_a_registry_are_bounded() {
    let large = "x".repeat(limits::REGISTRY_MANIFEST_BYTES + 1);
    let too_much = |most: u64| format!("oci://HOST/me/dice:1 has more than {most} bytes");
    assert_eq!(failure(vec![ok(&large)]).await, too_much(limits::REGISTRY_MANIFEST_BYTES as u64));
    let config = limits::REGISTRY_CONFIG_BYTES as u64;
    assert_eq!(failure(vec![ok(&manifest(4, config + 1))]).await, too_much(config));
    assert_eq!(failure(vec![ok(&manifest(4, 4)), ok("codes")]).await, too_much(4), "more than the manifest says");
    let component = limits::COMPONENT_BYTES;
    assert_eq!(failure(vec![ok(&manifest(component + 1, 4)), ok("code")]).await, too_much(component));
    let token = "x".repeat(limits::REGISTRY_ANSWER_BYTES + 1);
    let tokens = TestServer::start(vec![ok(&token)]).await;
    let ask = format!("www-authenticate: Bearer realm=\"{}/token\"\r\n", tokens.url);
    let said = failure(vec![answer("401 Unauthorized", &ask, "")]).await;
    assert!(said.contains(&format!("answered with more than {} bytes", limits::REGISTRY_ANSWER_BYTES)), "{said}");
}

#[tokio::test]
async fn redirects_are_counted_and_stay_encrypted() {
    let to = |location: &str| answer("307 Elsewhere", &format!("location: {location}\r\n"), "");
    let again = (0..=limits::REGISTRY_REDIRECTS).map(|_| to("/v2/again")).collect();
    let said = failure(again).await;
    assert_eq!(said, "cannot use oci://HOST/me/dice:1: the registry redirects more than 5 times");
    for location in ["http://files.example/1", "file:///etc/passwd"] {
        let said = failure(vec![to(location)]).await;
        assert_eq!(said, "cannot use oci://HOST/me/dice:1: the registry leads to an address without TLS");
    }
    let server = TestServer::start(vec![to("/moved"), ok(&manifest(4, 4)), ok("code"), ok("code")]).await;
    let (digest, artifact) = client().pull(&reference(&server)).await.unwrap();
    assert_eq!((digest, artifact.component), (Sha256Digest::of(manifest(4, 4)), b"code".to_vec()));
}

#[tokio::test]
async fn tags_are_read_page_by_page_up_to_a_bound() {
    let page = |tags: &str, next: &str| answer("200 OK", next, &format!("{{\"name\": \"me/dice\", \"tags\": {tags}}}"));
    let more = "link: </v2/me/dice/tags/list?last=b&n=2>; rel=\"next\"\r\n";
    let server = TestServer::start(vec![page("[\"a\", \"b\"]", more), page("[\"c\"]", "")]).await;
    assert_eq!(client().tags(&reference(&server)).await.unwrap(), ["a", "b", "c"]);
    assert!(server.requests()[1].starts_with("GET /v2/me/dice/tags/list?last=b&n=2 "));
    let server = TestServer::start(vec![page("null", "")]).await;
    assert!(client().tags(&reference(&server)).await.unwrap().is_empty());
    let endless = (0..limits::REGISTRY_TAG_PAGES).map(|_| page("[]", more)).collect();
    let large = vec![page(&format!("[\"{}\"]", "x".repeat(limits::REGISTRY_TAGS_BYTES)), "")];
    let elsewhere = vec![page("[]", "link: <http://tags.example/>; rel=\"next\"\r\n")];
    for (answers, says) in [
        (endless, "it has more than 16 pages of tags"),
        (large, "has more than 262144 bytes"),
        (elsewhere, "an address without TLS"),
        (vec![ok("[]")], "it has no list of tags"),
    ] {
        let server = TestServer::start(answers).await;
        let said = client().tags(&reference(&server)).await.unwrap_err().report().to_string();
        assert!(said.contains(says), "{said}");
    }
}

#[tokio::test]
async fn what_is_no_plugin_is_refused() {
    let digest = Sha256Digest::of("code");
    let two = manifest(4, 4).replace(
        "\"layers\":[",
        &format!("\"layers\":[{{\"mediaType\":\"{COMPONENT_TYPE}\",\"digest\":\"{digest}\",\"size\":4}},"),
    );
    let other = |header: &str| answer("200 OK", &format!("docker-content-digest: {header}\r\n"), &manifest(4, 4));
    let elsewhere = "www-authenticate: Bearer realm=\"http://tokens.example\"\r\n";
    for (answers, says) in [
        (vec![ok("{\"manifests\": []}")], "it has no manifest of one artifact"),
        (vec![ok(&two)], "it does not contain exactly one component"),
        (vec![ok(&manifest(4, 4).replace("sha256:", "sha512:"))], "a digest that is not SHA-256"),
        (vec![ok(&manifest(4, 4)), ok("core")], "was altered: its registry gives sha256:"),
        (vec![other(&digest.to_string())], "was altered: its registry gives sha256:"),
        (
            vec![answer(
                "404 Not Found",
                "",
                r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such tag"}]}"#,
            )],
            "404 Not Found: no such tag",
        ),
        (vec![answer("401 Unauthorized", elsewhere, "")], "an address without TLS"),
        (vec![answer("401 Unauthorized", "", "")], "a login of an unknown kind"),
    ] {
        let said = failure(answers).await;
        assert!(said.contains(says), "{says}: {said}");
    }
    let artifact = PluginPackageArtifact {
        manifest: Some("x".repeat(limits::REGISTRY_MANIFEST_BYTES)),
        ..PluginPackageArtifact::default()
    };
    let server = TestServer::start(vec![]).await;
    let said = client().push(&reference(&server), &artifact).await.unwrap_err().report();
    assert_eq!(said.causes, ["what it says of itself is larger than registries accept"]);
    let by_digest = reference(&server).at(digest);
    let said = client().push(&by_digest, &PluginPackageArtifact::default()).await.unwrap_err().report();
    assert_eq!(said.causes, ["it is published under a tag, not under a digest"]);
    assert!(server.requests().is_empty());
}

/// Returns the manifest of an agent package with these layers, each a path and a size.
fn agent_manifest(layers: &[(&str, u64)]) -> String {
    let layer = |(path, size): &(&str, u64)| {
        let annotations = json!({"org.opencontainers.image.title": path});
        json!({"mediaType": "text/plain", "digest": Sha256Digest::of("x").to_string(), "size": size, "annotations": annotations})
    };
    let layers: Vec<_> = layers.iter().map(layer).collect();
    let config = json!({"mediaType": AGENT_CONFIG_TYPE, "digest": Sha256Digest::of("").to_string(), "size": 0});
    json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string()
}

/// Pulls an agent package from a registry that answers so, and returns the failure.
async fn agent_failure(answers: Vec<CannedResponse>) -> String {
    let server = TestServer::start(answers).await;
    let report = client().pull_agent(&reference(&server)).await.unwrap_err().report();
    report.to_string().replace(server.url.strip_prefix("http://").unwrap(), "HOST")
}

#[tokio::test]
async fn agent_package_of_a_registry_is_bounded_and_whole() {
    let many: Vec<_> = (0..=limits::AGENT_PACKAGE_FILES).map(|_| ("agents.yaml", 1)).collect();
    let large = limits::AGENT_PACKAGE_BYTES;
    for (answer, says) in [
        (manifest(4, 4), "it is not an agent package; `shelly-host plugin install` installs a plugin"),
        (agent_manifest(&many), "it has more than 256 files"),
        (agent_manifest(&[("a", large), ("b", 1)]), "has more than 268435456 bytes"),
        (agent_manifest(&[("agents.yaml", 1)]), "it has no agent.toml"),
        (agent_manifest(&[("agent.toml", limits::MANIFEST_BYTES + 1)]), "has more than 65536 bytes"),
    ] {
        let said = agent_failure(vec![ok(&answer)]).await;
        assert!(said.contains(says), "{said}");
    }
    let altered = agent_failure(vec![ok(&agent_manifest(&[("agent.toml", 1)])), ok("y")]).await;
    assert!(altered.contains("was altered: its registry gives sha256:"), "{altered}");
    let text = "id = \"a\"\nversion = \"1.0.0\"\nfiles = [\"agents.yaml\"]\n";
    let whole = agent_manifest(&[("agent.toml", text.len() as u64)]);
    let whole = whole.replace(&Sha256Digest::of("x").to_string(), &Sha256Digest::of(text).to_string());
    let missing = agent_failure(vec![ok(&whole), ok(text)]).await;
    assert!(missing.contains("it lacks its file agents.yaml"), "{missing}");
    let as_plugin = failure(vec![ok(&whole)]).await;
    assert!(as_plugin.contains("it is an agent package; install it with `shelly-host agent install`"), "{as_plugin}");
}
