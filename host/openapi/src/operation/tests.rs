use super::*;
use crate::{ApiListing, ListingOptions};

/// Returns the listing of a document with these paths, in YAML, below `https://api.example.com/v1`.
fn listing_with(paths: &str, credential: Option<&CredentialPlace>) -> ApiListing {
    let text = format!("openapi: 3.0.3\npaths:\n{paths}");
    let options = ListingOptions {
        base: Some("https://api.example.com/v1/"),
        document_url: None,
        networks: &[],
        credential,
        tool_name: &|name| format!("api__{name}"),
    };
    ApiListing::read(&text, &options).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn listing(paths: &str) -> ApiListing {
    listing_with(paths, None)
}

fn only(listing: &ApiListing) -> &Arc<ApiOperation> {
    assert!(listing.left_out.is_empty(), "{:?}", listing.left_out);
    &listing.operations[0]
}

const TOYS: &str = "
  /pets/{petId}/toys:
    parameters:
      - {name: petId, in: path, required: true, schema: {type: string}}
      - {name: limit, in: query, schema: {type: string}}
    post:
      operationId: addToy
      summary: Adds a toy.
      description: \"Bold\\u001b[1m\"
      deprecated: true
      parameters:
        - {name: limit, in: query, schema: {type: integer, maximum: 9}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
        - {name: body, in: query, schema: {type: string}}
      requestBody:
        required: true
        content: {application/json: {schema: {type: object, properties: {name: {type: string}}, required: [name]}}}
";

#[test]
fn operation_becomes_a_tool() {
    let listing = listing(TOYS);
    let operation = only(&listing);
    assert_eq!((&*operation.name, &*operation.spec.name), ("addToy", "api__addToy"));
    assert_eq!(
        operation.spec.description,
        "Adds a toy.\n\nBold\\u{1b}[1m\n\nSends POST /pets/{petId}/toys. Deprecated."
    );
    assert!(!operation.spec.hints.read_only);
    let schema: Value = serde_json::from_str(operation.spec.input_schema.get()).unwrap();
    let expected = json!({
        "type": "object",
        "properties": {
            "petId": {"type": "string"},
            "limit": {"type": "integer", "maximum": 9},
            "X-Trace": {"type": "string"},
            "session": {"type": "string"},
            "body_query": {"type": "string"},
            "body": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        "required": ["petId", "body"],
        "additionalProperties": false,
    });
    assert_eq!(schema, expected);
    assert_eq!(
        operation.grant.rules().map(ToString::to_string).collect::<Vec<_>>(),
        ["POST https://api.example.com/v1/pets"]
    );
}

#[test]
fn call_becomes_the_request_of_its_operation() {
    let listing = listing(TOYS);
    let arguments = json!({"petId": "a b", "limit": 3, "X-Trace": "t", "session": "s;x=1", "body": {"name": "ball"}, "body_query": "&q=1"});
    let request = only(&listing).request(&arguments.to_string()).unwrap();
    assert_eq!(
        (&*request.method, &*request.url),
        ("POST", "https://api.example.com/v1/pets/a%20b/toys?limit=3&body=%26q%3D1")
    );
    let headers: Vec<_> =
        request.headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
    assert_eq!(headers[1..], ["X-Trace: t", "cookie: session=s%3Bx%3D1", "content-type: application/json"]);
    let EgressRequestBody::Bytes(body) = &request.body else { panic!("{:?}", request.body) };
    assert_eq!(&**body, br#"{"name":"ball"}"#);
    assert!(!request.follow && request.credential == CredentialUse::Any && request.timeout == Some(limits::TOOL_TIME));
    let bare = only(&listing).request(r#"{"petId": "1", "limit": null, "body": {"name": ""}}"#).unwrap();
    assert_eq!(bare.url, "https://api.example.com/v1/pets/1/toys", "an optional value that is null is left out");
}

#[test]
fn hostile_arguments_are_refused() {
    let listing = listing(TOYS);
    let call = |more: Value| {
        let mut arguments = json!({"petId": "1", "body": {"name": "ball"}});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        only(&listing).request(&arguments.to_string()).err().map(|fault| fault.to_string()).unwrap_or_default()
    };
    assert_eq!(call(json!({})), "");
    for (more, says) in [
        (json!({"petId": ".."}), "makes the segment `..`, which leads elsewhere"),
        (json!({"petId": "."}), "makes the segment `.`, which leads elsewhere"),
        (json!({"petId": "a/../../admin"}), "must not contain `/`"),
        (json!({"petId": "%2e%2e"}), "must not contain `/`"),
        (json!({"petId": "..;x"}), "must not contain `/`"),
        (json!({"petId": ""}), "must not be empty"),
        (json!({"petId": 7}), "`petId`: got a number, expected a string"),
        (json!({"X-Trace": "a\r\nauthorization: b"}), "must not contain line breaks"),
        (json!({"host": "evil.example"}), "`host`: unknown property"),
        (json!({"base": "https://evil.example"}), "`base`: unknown property"),
        (json!({"authorization": "Bearer x"}), "`authorization`: unknown property"),
        (json!({"limit": 10}), "`limit`: got 10, expected at most 9"),
        (json!({"body": {}}), "`name` is missing"),
    ] {
        let told = call(more.clone());
        assert!(told.contains(says), "{more}: {told}");
    }
    for arguments in ["", "[]", "{", "null"] {
        assert!(only(&listing).request(arguments).is_err(), "{arguments}");
    }
}

#[test]
fn unusable_operation_is_left_out_with_reason() {
    let long = format!("  /a:\n    get:\n      parameters: [{}]\n", "{name: p@, in: query},".repeat(129));
    let many = (0..129).fold(long, |text, n| text.replacen('@', &n.to_string(), 1));
    for (paths, name, says) in [
        ("  /a: {get: {servers: [{url: 'https://h'}]}}\n", "GET /a", "its own server `https://h` is not below `base`"),
        ("  /a: {get: {}, servers: [{url: 'https://{h}'}]}\n", "GET /a", "its own server has the variable `h`"),
        ("  /a: {trace: {operationId: t}}\n", "t", "the method TRACE is not supported"),
        ("  /a/{b}: {get: {}}\n", "GET /a/{b}", "the path parameter `b` is not described"),
        ("  /a/../b: {get: {}}\n", "GET /a/../b", "an empty segment, `.` or `..`"),
        ("  '/a?x=1': {get: {}}\n", "GET /a?x=1", "the character `?`"),
        ("  /a: {get: {requestBody: {content: {application/json: {}}}}}\n", "GET /a", "a GET request with a body"),
        (
            "  /a: {post: {requestBody: {required: true, content: {application/xml: {}}}}}\n",
            "POST /a",
            "the body is `application/xml`",
        ),
        ("  /a: {post: {requestBody: {$ref: '#/none'}}}\n", "POST /a", "the reference `#/none` leads nowhere"),
        ("  /a: {get: {parameters: [{$ref: 'x.yaml#/a'}]}}\n", "GET /a", "leads out of the document"),
        (
            "  /a: {get: {parameters: [{name: b, in: query, schema: {$ref: 'x.yaml#/a'}}]}}\n",
            "GET /a",
            "the reference `x.yaml#/a` leads out of the document",
        ),
        ("  /a: {get: 7}\n", "GET /a", "the operation is not a mapping"),
        ("  /a: {$ref: '#/paths/~1a'}\n", "/a", "more than 32 references"),
        ("  /a: 7\n", "/a", "the path is not a mapping"),
        (
            "  /a: {get: {parameters: [{name: \"a\\u200b\", in: query}]}}\n",
            "GET /a",
            "has the invisible character U+200B",
        ),
        (&many, "GET /a", "the operation has more than 128 parameters"),
    ] {
        let listing = listing(paths);
        let [left_out] = &listing.left_out[..] else { panic!("{paths}: {listing:?}") };
        assert!(left_out.name == name && left_out.why.contains(says), "{paths}: {left_out:?}");
        assert!(listing.operations.is_empty());
    }
}

#[test]
fn parameter_of_the_credential_is_not_an_argument() {
    let paths = "  /a: {get: {parameters: [{name: X-Key, in: header, required: true}, {name: key, in: query, required: true}]}}\n";
    let header = CredentialPlace::Header { name: "x-key".into(), scheme: String::new() };
    for (place, required) in [
        (None, json!(["X-Key", "key"])),
        (Some(header), json!(["key"])),
        (Some(CredentialPlace::Query("key".into())), json!(["X-Key"])),
    ] {
        let listing = listing_with(paths, place.as_ref());
        let schema: Value = serde_json::from_str(only(&listing).spec.input_schema.get()).unwrap();
        assert_eq!(schema["required"], required);
    }
}

#[test]
fn cookies_are_left_to_the_credential_with_cookies() {
    let paths = "  /a: {get: {parameters: [{name: sid, in: cookie, required: true}, {name: q, in: query, deprecated: true}]}}\n";
    let cookie = CredentialPlace::Header { name: "cookie".into(), scheme: String::new() };
    for (place, properties) in
        [(None, json!({"sid": {}, "q": {"deprecated": true}})), (Some(cookie), json!({"q": {"deprecated": true}}))]
    {
        let listing = listing_with(paths, place.as_ref());
        let schema: Value = serde_json::from_str(only(&listing).spec.input_schema.get()).unwrap();
        assert_eq!(schema["properties"], properties);
    }
}

#[test]
fn files_of_a_form_are_arguments() {
    let listing = listing(
        "  /a:
    post:
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema:
              type: object
              required: [photo]
              properties:
                title: {type: string}
                photo: {type: string, format: binary, description: The picture.}
                more: {type: array, maxItems: 2, items: {$ref: '#/components/schemas/File'}}
            encoding: {photo: {contentType: image/png}}
components:
  schemas:
    File: {contentMediaType: application/pdf}
",
    );
    let operation = only(&listing);
    let schema: Value = serde_json::from_str(operation.spec.input_schema.get()).unwrap();
    let properties = &schema["properties"]["body"]["properties"];
    assert_eq!(properties["title"], json!({"type": "string"}));
    let about = "The picture.\nA file of type image/png: its content is either `text` or `base64`.";
    assert_eq!(properties["photo"]["description"], about);
    assert_eq!(properties["photo"]["properties"]["base64"], json!({"type": "string"}));
    assert_eq!((&properties["more"]["type"], &properties["more"]["maxItems"]), (&json!("array"), &json!(2)));
    assert_eq!(properties["more"]["items"]["additionalProperties"], false);
    let body = json!({"title": "Rex", "photo": {"name": "rex.png", "base64": "iVA="}, "more": [{"text": "a"}]});
    let request = operation.request(&json!({ "body": body }).to_string()).unwrap();
    let EgressRequestBody::Bytes(bytes) = &request.body else { panic!("{:?}", request.body) };
    let written = String::from_utf8_lossy(bytes);
    assert!(written.contains("name=\"photo\"; filename=\"rex.png\"\r\ncontent-type: image/png\r\n\r\n"), "{written}");
    let (_, media_type) = request.headers.iter().find(|(name, _)| name == "content-type").unwrap();
    assert!(media_type.starts_with(b"multipart/form-data; boundary=shelly-"));
    for (body, says) in [
        (json!({}), "`photo` is missing"),
        (json!({"photo": "/etc/passwd"}), "got a string, expected an object"),
        (json!({"photo": {"path": "/etc/passwd"}}), "path`: unknown property"),
        (json!({"photo": {}}), "`body` has the property `photo`, which is a file, which has either `text` or `base64`"),
    ] {
        let told = operation.request(&json!({ "body": body }).to_string()).unwrap_err().to_string();
        assert!(told.contains(says), "{body}: {told}");
    }
}

#[test]
fn digest_changes_with_what_the_document_says() {
    let digest = |paths: &str| only(&listing(paths)).digest.clone();
    let get = |more: &str| digest(&format!("  /a: {{get: {{operationId: a{more}}}}}\n"));
    let first = get("");
    assert_eq!((first.len(), get(", tags: [x], responses: {200: {}}")), (64, first.clone()));
    for other in [
        get(", summary: Other."),
        get(", parameters: [{name: p, in: query}]"),
        get(", servers: [{url: 'https://api.example.com/v1/other'}]"),
        digest("  /a: {put: {operationId: a}}\n"),
        digest("  /b: {get: {operationId: a}}\n"),
        digest("  /a: {get: {operationId: b}}\n"),
    ] {
        assert_ne!(other, first);
    }
    let form = |explode: &str| get(&format!(", parameters: [{{name: p, in: query, explode: {explode}}}]"));
    assert_ne!(form("true"), form("false"), "the way in which a value is written");
}

#[test]
fn description_of_an_operation_is_cut() {
    let text = "x".repeat(limits::OPENAPI_DESCRIPTION_CHARS + 1);
    let listing = listing(&format!("  /a: {{get: {{description: {text}}}}}\n"));
    let description = &only(&listing).spec.description;
    assert!(description.ends_with("x…\n\nSends GET /a."), "{description}");
    assert_eq!(description.chars().filter(|c| *c == 'x').count(), limits::OPENAPI_DESCRIPTION_CHARS);
}
