//! Bodies of requests.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    document::ApiDocument,
    multipart::{MultipartForm, WrittenBody},
    parameter::{deep_pairs, is_json, is_true, pair, single},
    shown_text::shown_text,
    tool_schema::DescribedValue,
};
use shelly_core::{
    error::Fault,
    json_schema::{JsonMap, JsonNode},
    limits,
};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const MULTIPART: &str = "multipart/form-data";

/// The body of an operation's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestBody {
    /// The name among the arguments of the tool.
    pub argument: String,
    pub is_required: bool,
    /// The media type, without the boundary of a form of several parts.
    pub media_type: String,
    format: BodyFormat,
}

/// The form in which a body is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BodyFormat {
    Json,
    /// Pairs of name and value. The named properties are written as `name[key]=value`.
    Form(BTreeSet<String>),
    Multipart(MultipartForm),
    Text,
}

/// A body as the document describes it.
pub(crate) struct DescribedBody<'a> {
    pub body: RequestBody,
    pub value: DescribedValue<'a>,
}

impl<'a> DescribedBody<'a> {
    /// Reads the body of an operation; `None` if it is optional and the host cannot write it.
    ///
    /// # Errors
    ///
    /// A message that says why the host cannot write this required body.
    pub fn read(document: &'a ApiDocument, node: &'a JsonNode) -> Result<Option<Self>, String> {
        let map = document.object(node, "the body")?;
        let is_required = is_true(map, "required");
        let none = JsonMap::new();
        let content = map.get("content").and_then(JsonNode::map).unwrap_or(&none);
        let found = content.iter().find_map(|(name, _)| is_json(name).then_some((name, BodyFormat::Json)));
        let found = found.or_else(|| {
            content.iter().find_map(|(name, described)| match &*plain(name) {
                FORM => Some((name, BodyFormat::Form(deep_properties(described)))),
                MULTIPART => Some((name, BodyFormat::Multipart(MultipartForm::read(document, described)))),
                "text/plain" => Some((name, BodyFormat::Text)),
                _ => None,
            })
        });
        let Some((name, format)) = found else {
            let names: Vec<_> = content.keys().map(|name| shown_text(name, limits::NAME_SHOWN_CHARS)).collect();
            return match is_required {
                false => Ok(None),
                true => Err(format!(
                    "the body is `{}`, which is not supported; supported are JSON, {FORM}, {MULTIPART} and text/plain",
                    names.join("`, `")
                )),
            };
        };
        let media_type = match &format {
            BodyFormat::Json if name.contains('*') => JSON.to_owned(),
            // The host chooses the boundary.
            BodyFormat::Multipart(_) => MULTIPART.to_owned(),
            _ => shown_text(name, limits::NAME_SHOWN_CHARS),
        };
        let described = map.get("content").and_then(JsonNode::map).and_then(|content| content.get(name));
        let schema = described.and_then(JsonNode::map).and_then(|described| described.get("schema"));
        let description = map.get("description").and_then(JsonNode::text).unwrap_or_default();
        let body = RequestBody { argument: "body".into(), is_required, media_type, format };
        Ok(Some(Self { body, value: DescribedValue { schema, description, is_deprecated: false } }))
    }
}

/// Returns the properties of a form that are written as `name[key]=value`.
fn deep_properties(described: &JsonNode) -> BTreeSet<String> {
    let encoding = described.map().and_then(|described| described.get("encoding")).and_then(JsonNode::map);
    let is_deep = |encoding: &JsonNode| {
        encoding.map().and_then(|map| map.get("style")).and_then(JsonNode::text) == Some("deepObject")
    };
    let deep = encoding.into_iter().flatten().filter(|(_, encoding)| is_deep(encoding));
    deep.map(|(name, _)| name.clone()).collect()
}

fn plain(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl RequestBody {
    /// Replaces the schemas of files in the schema of a tool that has the body as an argument.
    pub fn describe_files(&self, tool_schema: &mut JsonNode) {
        if let BodyFormat::Multipart(form) = &self.format
            && let JsonNode::Object(map) = tool_schema
            && let Some(JsonNode::Object(arguments)) = map.get_mut("properties")
            && let Some(schema) = arguments.get_mut(&self.argument)
        {
            form.describe_files(schema);
        }
    }

    /// Writes a body.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] for a value that this kind of body cannot express.
    pub fn write(&self, value: &Value) -> Result<WrittenBody, Fault> {
        match (&self.format, value) {
            (BodyFormat::Multipart(form), Value::Object(map)) => {
                form.written(map).map_err(|why| Fault::invalid(format!("`{}` {why}", self.argument)))
            }
            _ => Ok(WrittenBody { bytes: self.bytes(value)?, media_type: self.media_type.clone() }),
        }
    }

    /// Returns the bytes of a body of one part.
    fn bytes(&self, value: &Value) -> Result<Vec<u8>, Fault> {
        let wrong = |why: &str| Fault::invalid(format!("`{}` {why}", self.argument));
        match (&self.format, value) {
            (BodyFormat::Json, value) => Ok(value.to_string().into_bytes()),
            (BodyFormat::Text, value) => single(value).map(String::into_bytes).ok_or_else(|| wrong("must be a text")),
            (BodyFormat::Form(deep), Value::Object(map)) => {
                let mut pairs = Vec::new();
                for (name, value) in map {
                    match value {
                        Value::Object(inner) if deep.contains(name) => {
                            let deeper = |why| wrong(&format!("has the property `{name}`, which {why}"));
                            pairs.extend(deep_pairs(name, inner).map_err(deeper)?);
                        }
                        Value::Array(list) => {
                            let one = |value: &Value| pair(name, &single(value).unwrap_or_else(|| value.to_string()));
                            pairs.extend(list.iter().map(one));
                        }
                        // Objects are JSON in a form, as the specification says.
                        value => pairs.push(pair(name, &single(value).unwrap_or_else(|| value.to_string()))),
                    }
                }
                Ok(pairs.join("&").into_bytes())
            }
            (BodyFormat::Form(_) | BodyFormat::Multipart(_), _) => {
                Err(wrong("must be an object, because it is a form"))
            }
        }
    }

    /// Returns the form of the body, for the digest of the operation.
    pub fn written(&self) -> String {
        format!("{} {:?}", self.media_type, self.format)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(text: &str) -> Result<Option<RequestBody>, String> {
        let document = ApiDocument::parse(&format!("openapi: 3.0.0\nb: {text}\n")).unwrap();
        DescribedBody::read(&document, document.get("b").unwrap()).map(|found| found.map(|found| found.body))
    }

    #[test]
    fn bodies_are_written_in_their_media_type() {
        let json = |value: &Value| value.to_string();
        let (object, nested) = (json!({"a": "x y", "b": [1, "&"]}), json!({"m": {"k": 1}, "o": {"k": 1}}));
        for (text, value, media_type, written) in [
            ("{content: {application/json: {}}}", &object, "application/json", json(&object)),
            ("{content: {text/csv: {}, '*/*': {}}}", &object, "application/json", json(&object)),
            ("{content: {application/merge-patch+json: {}}}", &object, "application/merge-patch+json", json(&object)),
            (
                "{content: {application/x-www-form-urlencoded: {}, application/json; charset=utf-8: {}}}",
                &object,
                "application/json; charset=utf-8",
                json(&object),
            ),
            ("{content: {application/x-www-form-urlencoded: {}}}", &object, FORM, "a=x%20y&b=1&b=%26".into()),
            (
                "{content: {application/x-www-form-urlencoded: {encoding: {m: {style: deepObject}}}}}",
                &nested,
                FORM,
                "m%5Bk%5D=1&o=%7B%22k%22%3A1%7D".into(),
            ),
            ("{content: {text/plain: {}}}", &json!("a\nb"), "text/plain", "a\nb".into()),
        ] {
            let found = body(text).unwrap().unwrap();
            let expected = WrittenBody { bytes: written.into_bytes(), media_type: media_type.into() };
            assert_eq!(found.write(value), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unsupported_body_is_refused_if_it_is_required() {
        let unsupported = "content: {application/xml: {}, \"a/\\u001bb\": {}}";
        assert_eq!(body(&format!("{{{unsupported}}}")), Ok(None));
        assert_eq!(
            body(&format!("{{required: true, {unsupported}}}")),
            Err("the body is `application/xml`, `a/\\u{1b}b`, which is not supported; supported are JSON, \
                 application/x-www-form-urlencoded, multipart/form-data and text/plain"
                .into())
        );
        let form =
            body("{content: {application/x-www-form-urlencoded: {encoding: {m: {style: deepObject}}}}}").unwrap();
        let text = body("{content: {text/plain: {}}}").unwrap().unwrap();
        let parts = body("{content: {multipart/form-data; boundary=x: {}}}").unwrap().unwrap();
        assert_eq!(parts.media_type, "multipart/form-data");
        for form in [form.clone().unwrap(), parts] {
            assert!(form.write(&json!([1])).unwrap_err().to_string().contains("must be an object"));
        }
        let deep = form.unwrap().write(&json!({"m": {"k": {"l": 1}}})).unwrap_err().to_string();
        assert!(deep.contains("`body` has the property `m`, which must be an object whose properties"), "{deep}");
        assert!(text.write(&json!({})).unwrap_err().to_string().contains("must be a text"));
    }
}
