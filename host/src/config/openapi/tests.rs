use super::*;
use crate::{
    capability::Grant,
    config::{Config, CredentialConfig},
};

const PETS: &str = "openapi: 3.0.0
servers: [{url: 'https://api.example.com/v1'}]
paths:
  /pets: {get: {operationId: listPets}, post: {operationId: addPet}}
  /upload: {post: {operationId: upload, requestBody: {required: true, content: {application/xml: {}}}}}
  /files: {servers: [{url: 'https://files.example.com'}], get: {operationId: listFiles}}
";

fn parse(text: &str) -> Result<Config, Report> {
    Config::parse(text, "/project".into())
}

#[test]
fn api_config_is_parsed() {
    let digest = "a".repeat(64);
    let text = format!(
        "credentials: [{{name: key, env: KEY, for: ['https://api.example.com']}}]\n\
         openapi:\n  - {{name: pets, document: docs/pets.yaml, credential: key}}\n  \
         - {{name: web, document: 'https://docs.example/openapi.json', sha256: {digest}, base: 'https://h.lan/v1', networks: [10.0.0.0/8]}}\n\
         agents:\n  - {{name: a, openapi: [pets, {{name: web, operations: [getPet, 'GET /pets/*'], confirm: true}}]}}\n"
    );
    let config = parse(&text).unwrap_or_else(|report| panic!("{report}"));
    let [pets, web] = &config.openapi[..] else { panic!() };
    assert_eq!((pets.document.as_str(), pets.is_at_url(), pets.is_pinned()), ("docs/pets.yaml", false, false));
    assert_eq!((web.is_at_url(), web.is_pinned(), web.sha256.as_ref()), (true, false, Some(&digest)));
    assert_eq!((web.known_servers(), web.networks().len()), (vec!["https://h.lan/v1".to_owned()], 1));
    let place = config.credential_of(pets).map(CredentialConfig::place);
    assert_eq!(place, Some(CredentialPlace::Header { name: "authorization".into(), scheme: "Bearer".into() }));
    let [short, full] = &config.agents[0].openapi[..] else { panic!() };
    assert_eq!(*short, OpenApiUse { name: "pets".into(), operations: None, confirm: None });
    let operations = Some(vec!["getPet".to_owned(), "GET /pets/*".into()]);
    assert_eq!(*full, OpenApiUse { name: "web".into(), operations, confirm: Some(true) });
}

#[test]
fn invalid_api_is_refused_with_reason() {
    let many = (0..=limits::OPENAPI_APIS).map(|n| format!("{{name: a{n}, document: x}},")).collect::<String>();
    let patterns = "x,".repeat(limits::OPENAPI_PATTERNS + 1);
    let api = |keys: &str| format!("openapi: [{{{keys}}}]");
    let used = |uses: &str| format!("openapi: [{{name: p, document: x}}]\nagents: [{{name: a, openapi: [{uses}]}}]");
    for (text, says) in [
        (api("name: P, document: x"), "openapi: invalid server name `P`"),
        (api("name: git, document: x"), "openapi.git: a toolbox of the host has this name"),
        (api("name: p, document: ''"), "openapi.p.document: is empty"),
        (api("name: p, document: 'http://h.example/x'"), "openapi.p.document: must be a file, or begin with https://"),
        (api("name: p, document: 'ftp://h/x'"), "openapi.p.document: must be a file, or begin with https://"),
        (api("name: p, document: 'https://u:p@h/x'"), "must not have a user, a password or `*`"),
        (api("name: p, document: 'https://*/x'"), "openapi.p.document: "),
        (api("name: p, document: x, sha256: abc"), "openapi.p.sha256: valid only for a document at a URL"),
        (api("name: p, document: 'https://h/x', sha256: ABC"), "openapi.p.sha256: not 64 hexadecimal digits"),
        (api("name: p, document: x, base: h"), "openapi.p.base: invalid URL `h`"),
        (api("name: p, document: x, base: 'https://*.h'"), "openapi.p.base: must not contain `*`"),
        (api("name: p, document: x, base: 'https://h?k=1'"), "openapi.p.base: invalid URL"),
        (api("name: p, document: x, networks: [y]"), "openapi.p.networks: `y` is not a network"),
        (api("name: p, document: x, credential: k"), "there is no credential `k`: named by openapi.p.credential"),
        (api("name: p, document: x}, {name: p, document: y"), "openapi.p: two entries have this name"),
        (
            format!("{}\nmcp_servers: [{{name: p, command: x}}]", api("name: p, document: x")),
            "openapi.p: an MCP server has this name",
        ),
        (format!("openapi: [{many}]"), "openapi: must have at most 64 entries"),
        (used("q"), "there is no API `q`: named by agents.a.openapi"),
        (used("p, p"), "agents.a.openapi: `p` appears twice"),
        (
            used("{name: p, operations: ['get /x']}"),
            "agents.a.openapi.p: operations: `get /x`: write the method in upper case",
        ),
        (used(&format!("{{name: p, operations: [{patterns}]}}")), "operations: must have at most 256 entries"),
    ] {
        let told = parse(&text).err().map(|report| report.with_hint()).unwrap_or_default();
        assert!(told.contains(says), "{text}\nwanted: {says}\ntold: {told}");
    }
}

#[test]
fn document_in_a_file_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pets.yaml");
    let text = "openapi: [{name: pets, document: pets.yaml}]\nagents: [{name: a, openapi: [pets]}]";
    let config = Config::parse(text, folder.path().into()).unwrap();
    let [api] = &config.openapi[..] else { panic!() };
    assert!(api.listing.get().is_none() && config.api_grant(&config.agents[0].openapi[0]) == Grant::default());
    std::fs::write(&path, PETS).unwrap();
    config.read_api_files();
    let listing = api.listing.found().unwrap();
    assert_eq!((listing.operations.len(), listing.left_out.len()), (3, 1));
    assert_eq!(listing.operations[0].spec.name, "pets__listPets");
    assert_eq!(api.known_servers(), ["https://api.example.com/v1", "https://files.example.com"]);
    let grant = config.api_grant(&config.agents[0].openapi[0]).http;
    let rules: Vec<_> = grant.rules().map(ToString::to_string).collect();
    let expected = [
        "GET https://api.example.com/v1/pets",
        "POST https://api.example.com/v1/pets",
        "GET https://files.example.com/files",
    ];
    assert_eq!(rules, expected);
    for (text, says) in [
        (None, "no such file or folder"),
        (Some(b"\xff".to_vec()), "the document is not UTF-8 text"),
        (Some(b"{".to_vec()), "the document is not JSON"),
        (Some(vec![b' '; limits::OPENAPI_DOCUMENT_BYTES + 1]), "the document has more than 8388608 bytes"),
    ] {
        std::fs::remove_file(&path).unwrap_or_default();
        text.into_iter().for_each(|text| std::fs::write(&path, text).unwrap());
        let config = Config::parse(text_of_config(), folder.path().into()).unwrap();
        config.read_api_files();
        let why = config.openapi[0].listing.get().unwrap().as_ref().unwrap_err();
        assert!(why.contains("pets.yaml: ") && why.contains(says), "{why}");
    }
}

fn text_of_config() -> &'static str {
    "openapi: [{name: pets, document: pets.yaml}]"
}

#[test]
fn document_must_have_its_digest() {
    let digest = Sha256Digest::of(PETS).hex();
    let api = |sha256: &str| OpenApiConfig {
        name: "pets".into(),
        document: "https://api.example.com/openapi.yaml".into(),
        sha256: Some(sha256.into()),
        ..OpenApiConfig::default()
    };
    assert!(api(&digest).read(PETS, None).is_ok());
    let told = api(&"0".repeat(64)).read(PETS, None).unwrap_err();
    assert_eq!(told, format!("the document has the SHA-256 digest {digest}, expected {}", "0".repeat(64)));
}
