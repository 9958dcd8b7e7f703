use super::*;

/// Returns the form of a schema and an encoding in YAML.
fn form(schema: &str, encoding: &str) -> MultipartForm {
    let text = format!("openapi: 3.1.0\nf: {{schema: {schema}, encoding: {encoding}}}\nfile: {{format: binary}}\n");
    let document = ApiDocument::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    MultipartForm::read(&document, document.get("f").unwrap())
}

fn written(form: &MultipartForm, value: &Value) -> Result<(String, String), String> {
    let written = form.written(value.as_object().unwrap())?;
    let boundary = written.media_type.strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
    Ok((String::from_utf8(written.bytes).unwrap().replace(&boundary, "BOUNDARY"), boundary))
}

#[test]
fn files_of_a_form_are_found() {
    let schema = "{allOf: [{properties: {a: {type: string, format: binary}, b: {$ref: '#/file'}}}, {properties: {c: {type: \
                  array, items: {type: [string, 'null'], contentMediaType: image/png}}}}], properties: {d: {type: string}, \
                  e: {type: string, format: byte}, f: {type: string, contentMediaType: application/json}, g: {type: string, \
                  contentMediaType: image/png, contentEncoding: base64}, h: {$ref: '#/none'}}}";
    let found =
        form(schema, "{a: {contentType: 'image/png, image/jpeg'}, d: {contentType: text/csv}, b: {contentType: 7}}");
    assert_eq!(found.files.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(found.media_types, [("d".to_owned(), "text/csv".to_owned())]);
    // Schemas that lead to each other end somewhere.
    let text =
        "openapi: 3.1.0\nf: {schema: {$ref: '#/s'}}\ns: {allOf: [{$ref: '#/s'}, {$ref: '#/s'}, {$ref: '#/s'}]}\n";
    let document = ApiDocument::parse(text).unwrap();
    assert_eq!(MultipartForm::read(&document, document.get("f").unwrap()), MultipartForm::default());
}

#[test]
fn form_is_written_part_by_part() {
    let form =
        form("{properties: {file: {format: binary}, all: {items: {format: binary}}}}", "{t: {contentType: text/csv}}");
    let value = json!({
        "a": 1,
        "b": ["x", {"k": 2}],
        "file": {"name": "a\"\r\nx: y.txt", "text": "line\r\n"},
        "all": [{"base64": "YWI"}, {"text": "", "media_type": "text/plain", "base64": null}],
        "t": "1;2",
    });
    let (text, boundary) = written(&form, &value).unwrap();
    let mut parts: Vec<_> = text.split("--BOUNDARY").collect();
    assert_eq!((parts.remove(0), parts.pop()), ("", Some("--\r\n")));
    parts.sort_unstable();
    let disposition = "\r\ncontent-disposition: form-data; name=";
    let expected = [
        format!("{disposition}\"a\"\r\n\r\n1\r\n"),
        format!("{disposition}\"all\"; filename=\"file\"\r\ncontent-type: application/octet-stream\r\n\r\nab\r\n"),
        format!("{disposition}\"all\"; filename=\"file\"\r\ncontent-type: text/plain\r\n\r\n\r\n"),
        format!("{disposition}\"b\"\r\n\r\nx\r\n"),
        format!("{disposition}\"b\"\r\ncontent-type: application/json\r\n\r\n{{\"k\":2}}\r\n"),
        format!(
            "{disposition}\"file\"; filename=\"a%22%0D%0Ax: y.txt\"\r\ncontent-type: application/octet-stream\r\n\r\nline\r\n\r\n"
        ),
        format!("{disposition}\"t\"\r\ncontent-type: text/csv\r\n\r\n1;2\r\n"),
    ];
    assert_eq!(parts, expected);
    assert_eq!(written(&form, &value).unwrap().1, boundary, "the same call sends the same bytes");
    let other = written(&form, &json!({"a": format!("--{boundary}--")})).unwrap();
    assert_ne!(other.1, boundary, "the boundary is nowhere in the parts");
    assert_eq!(written(&form, &json!({})).unwrap().0, "--BOUNDARY--\r\n");
}

#[test]
fn invalid_file_is_refused_with_reason() {
    let form = form("{properties: {f: {format: binary}}}", "{}");
    let long = "x".repeat(limits::OPENAPI_FILE_NAME_BYTES + 1);
    for (file, says) in [
        (json!("/etc/passwd"), "is a file: write `{\"name\": …, \"text\": …}`"),
        (json!(null), "is a file: write"),
        (json!({}), "has either `text` or `base64`"),
        (json!({"text": "a", "base64": "YQ=="}), "has either `text` or `base64`"),
        (json!({"text": 7}), "has a `text` that is not a text"),
        (json!({"base64": "a b"}), "has a `base64` that is not base64"),
        (json!({"text": "", "media_type": "image/png\r\nx: y"}), "has a `media_type` that is not of the form"),
        (json!({"text": "", "media_type": "image"}), "has a `media_type` that is not of the form"),
        (json!({"text": "", "name": "../a"}), "has a `name` that is not 1 to 255 bytes without `/` and `\\`"),
        (json!({"text": "", "name": ""}), "has a `name` that is not 1 to 255 bytes"),
        (json!({"text": "", "name": long}), "has a `name` that is not 1 to 255 bytes"),
    ] {
        let why = written(&form, &json!({ "f": file })).unwrap_err();
        assert!(why.starts_with("has the property `f`, which ") && why.contains(says), "{file}: {why}");
    }
}

#[test]
fn parts_of_a_form_are_bounded() {
    let form = MultipartForm::default();
    let parts = |count: usize| written(&form, &json!({"a": 0, "b": vec![1; count]}));
    assert!(parts(limits::OPENAPI_PARTS - 1).is_ok());
    assert_eq!(parts(limits::OPENAPI_PARTS), Err(format!("has more than {} parts", limits::OPENAPI_PARTS)));
}
