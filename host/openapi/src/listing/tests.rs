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
        ("[{url: 'https://evil.example'}]", None, at, Err("which is another one; set `base`")),
        ("[{url: 'http://docs.example'}]", None, at, Err("which is another one; set `base`")),
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
