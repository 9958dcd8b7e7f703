use super::*;

fn options<'a>(base: Option<&'a str>, document_url: Option<&'a Url>) -> ListingOptions<'a> {
    ListingOptions { base, document_url, networks: &[], credential: None, tool_name: &|name| format!("api__{name}") }
}

fn read(text: &str) -> ApiListing {
    ApiListing::read(text, &options(Some("https://h.example"), None)).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn base_is_that_of_the_config_or_of_the_document() {
    let url = Url::parse("https://docs.example/v2/openapi.json").unwrap();
    let at = Some(&url);
    for (servers, base, document_url, expected) in [
        ("[{url: 'https://h.example/v1'}]", None, None, Ok("https://h.example/v1")),
        ("[{url: 'https://h.example/v1'}]", Some("https://other.example"), None, Ok("https://other.example/")),
        (
            "[{url: 'https://{host}.example/{v}', variables: {host: {default: eu}, v: {default: v3}}}]",
            None,
            None,
            Ok("https://eu.example/v3"),
        ),
        ("[{url: /v1}]", None, at, Ok("https://docs.example/v1")),
        ("[{url: 'https://docs.example/x'}]", None, at, Ok("https://docs.example/x")),
        ("[{url: 'https://evil.example'}]", None, at, Err("which is at another origin; set `base`")),
        ("[{url: 'http://docs.example'}]", None, at, Err("which is at another origin; set `base`")),
        ("[{url: 'https://evil.example'}]", Some("https://h.example"), at, Ok("https://h.example/")),
        ("[{url: /v1}]", None, None, Err("the server `/v1` of the document cannot be used")),
        ("[]", None, None, Err("the document names no server; set `base`")),
        ("[{}]", None, None, Err("has no URL; set `base`")),
        ("[{url: 'ftp://h'}]", None, None, Err("must begin with https:// or http://")),
        ("[{url: 'https://*'}]", None, None, Err("; set `base`")),
        ("[{url: 'https://*.example.com/v1'}]", None, None, Err("; set `base`")),
        ("[{url: 'https://u:p@h'}]", None, None, Err("must not have a user or a password")),
        ("[]", Some("https://h.example?key=1"), None, Err("base: must not have a query")),
        ("[]", Some("h.example"), None, Err("base: not a URL")),
    ] {
        let found = ApiListing::read(&format!("openapi: 3.0.0\nservers: {servers}\n"), &options(base, document_url));
        match (found, expected) {
            (Ok(listing), Ok(expected)) => assert_eq!(listing.base.as_str(), expected, "{servers}"),
            (Err(why), Err(says)) => assert!(why.contains(says), "{servers}: {why}"),
            (found, expected) => panic!("{servers}: {found:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn tools_get_unique_names() {
    let listing = read(
        "openapi: 3.1.0\npaths:\n  /a: {get: {operationId: list}, put: {operationId: List}}\n  /b: {get: {operationId: list}}\n  \
         /c/{d}: {get: {parameters: [{name: d, in: path}]}}\n  /e: {get: {operationId: ' '}}\n",
    );
    let names: Vec<_> = listing.operations.iter().map(|one| (one.name.as_str(), one.spec.name.as_str())).collect();
    assert_eq!(
        names,
        [
            ("list", "api__list"),
            ("List", "api__List_PUT_a"),
            ("GET /b", "api__list_GET_b"),
            ("GET /c/{d}", "api__GET_c_d"),
            ("GET /e", "api__GET_e"),
        ]
    );
    assert!(listing.left_out.is_empty(), "{:?}", listing.left_out);
    let text = "openapi: 3.1.0\npaths: {/a: {get: {operationId: one}, put: {operationId: other}}}";
    let same = ListingOptions { tool_name: &|_| "same".into(), ..options(Some("https://h.example"), None) };
    let listing = ApiListing::read(text, &same).unwrap();
    assert_eq!(listing.left_out[0].why, "another operation has the same name");
}

#[test]
fn operations_have_the_server_nearest_to_them() {
    let text = "openapi: 3.1.0\nservers: [{url: 'https://h.example/v1'}]\npaths:\n  \
                /a: {get: {}, servers: []}\n  \
                /b: {get: {}, put: {servers: [{url: 'https://files.example'}]}, servers: [{url: 'https://b.example/'}]}\n";
    let listing = ApiListing::read(text, &options(None, None)).unwrap();
    assert!(listing.left_out.is_empty(), "{:?}", listing.left_out);
    let servers: Vec<_> = listing.operations.iter().map(|one| one.server()).collect();
    assert_eq!(servers, ["https://h.example/v1", "https://b.example", "https://files.example"]);
    assert_eq!(listing.servers(), ["https://h.example/v1", "https://b.example", "https://files.example"]);
    let grants: Vec<_> = listing.operations.iter().flat_map(|one| one.grant.rules()).map(ToString::to_string).collect();
    assert_eq!(grants, ["GET https://h.example/v1/a", "GET https://b.example/b", "PUT https://files.example/b"]);
    // The server of the document gets nothing if all operations have their own.
    let own = text.replace("/a: {get: {}, servers: []}", "/a: {get: {servers: [{url: 'https://b.example'}]}}");
    assert_eq!(
        ApiListing::read(&own, &options(None, None)).unwrap().servers(),
        ["https://b.example", "https://files.example"]
    );
}

#[test]
fn servers_of_operations_are_bounded() {
    let most = limits::OPENAPI_SERVERS;
    let path = |n: usize| format!("  /p{n}: {{get: {{servers: [{{url: 'https://h{n}.example'}}]}}}}\n");
    let paths: String = (0..most + 2).map(path).collect();
    let listing = read_anywhere(&format!(
        "openapi: 3.0.0\nservers: [{{url: 'https://h.example'}}]\npaths:\n{paths}  /last: {{get: {{servers: [{{url: 'https://h0.example'}}]}}}}\n"
    ));
    assert_eq!((listing.operations.len(), listing.left_out.len()), (most + 1, 2));
    assert_eq!(listing.left_out[0].why, "the operations before it have 16 servers already, which is the maximum");
}

/// Returns the operations of a document that is a file, without `base`.
fn read_anywhere(text: &str) -> ApiListing {
    ApiListing::read(text, &options(None, None)).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn hostile_documents_are_read_in_bounded_work() {
    // As many operations as fit into a document.
    let operations: String = (0..100_000).map(|n| format!("\"/p{n}\":{{\"get\":{{}}}},")).collect();
    let many = format!("{{\"openapi\":\"3.0.0\",\"paths\":{{{}}}}}", operations.trim_end_matches(','));
    let over = ApiListing::read(&many, &options(Some("https://h.example"), None));
    assert_eq!(over.err().as_deref(), Some("the document has more than 2048 operations"));
    // Parameters that are compared with each other, and schemes that each operation requires.
    let parameters: String = (0..100_000).map(|n| format!("{{\"name\":\"p{n}\",\"in\":\"query\"}},")).collect();
    let schemes: String = (0..20_000).map(|n| format!("\"s{n}\":[],")).collect();
    let paths: String = (0..2_000).map(|n| format!("\"/p{n}\":{{\"get\":{{}}}},")).collect();
    let wide = format!(
        "{{\"openapi\":\"3.0.0\",\"security\":[{{{}}}],\"paths\":{{{paths}\"/wide\":{{\"get\":{{\"parameters\":[{}]}}}}}}}}",
        schemes.trim_end_matches(','),
        parameters.trim_end_matches(',')
    );
    let listing = read(&wide);
    assert_eq!((listing.operations.len(), listing.left_out.len()), (2_000, 1));
    assert_eq!(listing.left_out[0].why, "the operation has more than 128 parameters");
    let unmet = listing.operations[0].unmet_security(None).unwrap();
    assert_eq!(unmet.matches("the security scheme").count(), limits::OPENAPI_REFERENCES);
    // Texts of a megabyte with control characters, in every place that a model or a person reads.
    let text = "\\u001b[2J\\u202e".repeat(50_000);
    let hostile = format!(
        "{{\"openapi\":\"3.1.0\",\"paths\":{{\"/a\":{{\"get\":{{\"operationId\":\"{text}\",\"summary\":\"{text}\",\
         \"description\":\"{text}\",\"parameters\":[{{\"name\":\"q\",\"in\":\"query\",\"description\":\"{text}\"}}]}}}},\
         \"/{text}\":{{\"get\":{{}}}}}}}}"
    );
    let named = ListingOptions {
        tool_name: &|name| format!("api__{}", name.len()),
        ..options(Some("https://h.example"), None)
    };
    let listing = ApiListing::read(&hostile, &named).unwrap();
    let [operation] = &listing.operations[..] else { panic!("{:?}", listing.left_out) };
    let shown = [&operation.name, &operation.path, &operation.spec.description, &listing.left_out[0].name];
    for text in shown.into_iter().chain([&listing.left_out[0].why]) {
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.len() < 100_000, "{}", text.len());
    }
    assert!(operation.spec.input_schema.get().len() < limits::OPENAPI_SCHEMA_BYTES);
    assert!(!operation.spec.input_schema.get().contains("\\u001b"));
}

#[test]
fn config_selects_operations() {
    let listing = read(
        "openapi: 3.0.0\npaths:\n  /pets: {get: {operationId: listPets}, post: {operationId: addPet}}\n  \
         /pets/{id}: {parameters: [{name: id, in: path}], get: {operationId: getPet}, delete: {}}\n",
    );
    let selected = |patterns: Option<&[&str]>| {
        let patterns =
            patterns.map(|all| all.iter().map(|one| OperationPattern::parse(one).unwrap()).collect::<Vec<_>>());
        let SelectedOperations { operations, unknown } = listing.select(patterns.as_deref()).unwrap();
        (operations.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), unknown)
    };
    for (patterns, names, unknown) in [
        (None, &["listPets", "addPet", "getPet", "DELETE /pets/{id}"][..], &[][..]),
        (Some(&["getPet", "POST /pets"][..]), &["addPet", "getPet"], &[]),
        (Some(&["GET /**"]), &["listPets", "getPet"], &[]),
        (Some(&["* /pets/*"]), &["getPet", "DELETE /pets/{id}"], &[]),
        (Some(&["getpet", "GET /toys", "addPet"]), &["addPet"], &["getpet", "GET /toys"]),
        (Some(&[]), &[], &[]),
    ] {
        assert_eq!(
            selected(patterns),
            (names.iter().map(|n| (*n).to_owned()).collect(), unknown.iter().map(|n| (*n).to_owned()).collect())
        );
    }
    assert!(listing.find("getPet").is_some() && listing.find("none").is_none());
}

#[test]
fn listing_and_selection_are_bounded() {
    let paths =
        |count: usize, more: &str| (0..count).map(|n| format!("  /p{n}: {{get: {{{more}}}}}\n")).collect::<String>();
    let document = |count, more: &str| format!("openapi: 3.0.0\npaths:\n{}", paths(count, more));
    let over =
        ApiListing::read(&document(limits::OPENAPI_OPERATIONS + 1, ""), &options(Some("https://h.example"), None));
    assert_eq!(over.err().as_deref(), Some("the document has more than 2048 operations"));
    let listing = read(&document(limits::OPENAPI_TOOLS + 1, ""));
    let told = listing.select(None).unwrap_err();
    assert!(told.starts_with("513 operations with ") && told.contains("the maximum is 512 with 524288"), "{told}");
    let one = [OperationPattern::parse("GET /p1").unwrap()];
    assert_eq!(listing.select(Some(&one)).unwrap().operations.len(), 1);
    let about = format!("description: {}", "x".repeat(limits::OPENAPI_DESCRIPTION_CHARS));
    assert!(read(&document(300, &about)).select(None).is_err(), "their descriptions are too long together");
}
