//! Bodies of type `multipart/form-data`: fields, and files whose content is among the arguments of the call.
//!
//! A model passes the content of a file, never a path: the tool of an API has no access to the files of the machine, so a
//! misled model can send only content that it has read with other tools.

use std::collections::BTreeSet;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value, json};

use super::{
    document::ApiDocument,
    parameter::{is_json, single},
};
use shelly_core::{
    digest::Sha256Digest,
    json_schema::{JsonMap, JsonNode},
    limits,
};

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const BINARY: &str = "application/octet-stream";

/// The properties of a form that are files, and the media types of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MultipartForm {
    files: BTreeSet<String>,
    /// The media types that the document gives to parts, with the names of the properties.
    media_types: Vec<(String, String)>,
}

/// A body, and the value of its header `content-type`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrittenBody {
    pub bytes: Vec<u8>,
    pub media_type: String,
}

/// One part of a form before it is written.
struct FormPart<'a> {
    name: &'a str,
    file: Option<String>,
    media_type: Option<String>,
    bytes: Vec<u8>,
}

impl MultipartForm {
    /// Reads the form that a media type describes.
    pub fn read(document: &ApiDocument, described: &JsonNode) -> Self {
        let mut form = Self::default();
        let described = described.map();
        if let Some(schema) = described.and_then(|map| map.get("schema")) {
            let mut left = limits::OPENAPI_SCHEMA_NODES;
            form.add_files(document, schema, &mut left, limits::OPENAPI_REFERENCES);
        }
        let encoding = described.and_then(|map| map.get("encoding")).and_then(JsonNode::map).into_iter().flatten();
        for (name, encoding) in encoding {
            let named = encoding.map().and_then(|map| map.get("contentType")).and_then(JsonNode::text);
            // A list or a range leaves the choice to the model.
            form.media_types.extend(named.filter(|named| is_media_type(named)).map(|it| (name.clone(), it.to_owned())));
        }
        form
    }

    /// Adds the properties of an object that are files, or lists of files. At most `left` schemas are read, nested at most
    /// `depth` deep: schemas of a hostile document may refer to each other many times.
    fn add_files(&mut self, document: &ApiDocument, schema: &JsonNode, left: &mut usize, depth: usize) {
        let (Some(depth), Ok(map)) = (depth.checked_sub(1), document.object(schema, "a schema")) else { return };
        for (name, property) in map.get("properties").and_then(JsonNode::map).into_iter().flatten() {
            let Some(rest) = left.checked_sub(1) else { return };
            *left = rest;
            let Ok(property) = document.object(property, "a property") else { continue };
            let items = property.get("items").and_then(|items| document.object(items, "the items").ok());
            if is_file(property) || items.is_some_and(is_file) {
                self.files.insert(name.clone());
            }
        }
        for one in map.get("allOf").map_or(&[][..], JsonNode::list) {
            let Some(rest) = left.checked_sub(1) else { return };
            *left = rest;
            self.add_files(document, one, left, depth);
        }
    }

    /// Replaces the schemas of files by that of the object that a model passes.
    pub fn describe_files(&self, schema: &mut JsonNode) {
        let JsonNode::Object(map) = schema else { return };
        if let Some(JsonNode::Object(properties)) = map.get_mut("properties") {
            for (name, property) in properties.iter_mut().filter(|(name, _)| self.files.contains(*name)) {
                let about = property.map().and_then(|map| map.get("description")).and_then(JsonNode::text);
                let file = file_schema(self.media_type(name), about);
                let is_list = |map: &JsonMap| {
                    map.contains_key("items") || map.get("type").and_then(JsonNode::text) == Some("array")
                };
                if let JsonNode::Object(list) = &mut *property
                    && is_list(list)
                {
                    list.insert("items".into(), file);
                } else {
                    *property = file;
                }
            }
        }
        if let Some(JsonNode::List(all)) = map.get_mut("allOf") {
            all.iter_mut().for_each(|one| self.describe_files(one));
        }
    }

    fn media_type(&self, name: &str) -> Option<&str> {
        self.media_types.iter().find(|(of, _)| of == name).map(|(_, media_type)| media_type.as_str())
    }

    /// Writes a form.
    ///
    /// # Errors
    ///
    /// A message that begins with the property that is wrong.
    pub fn written(&self, map: &Map<String, Value>) -> Result<WrittenBody, String> {
        let mut parts = Vec::new();
        for (name, value) in map {
            let several = std::slice::from_ref(value);
            let values = value.as_array().map_or(several, Vec::as_slice);
            if parts.len() + values.len() > limits::OPENAPI_PARTS {
                return Err(format!("has more than {} parts", limits::OPENAPI_PARTS));
            }
            for value in values {
                let part = self.part(name, value).map_err(|why| format!("has the property `{name}`, which {why}"))?;
                parts.push(part);
            }
        }
        // The boundary depends on the digests of all parts, so nobody can put it into a part on purpose.
        let mut seed: String = parts.iter().map(|part| Sha256Digest::of(&part.bytes).hex()).collect();
        let boundary = loop {
            seed = Sha256Digest::of(&seed).hex();
            let boundary = format!("shelly-{}", &seed[..32]);
            // A part with the boundary in it would end early, and its rest would pass for other parts.
            if !parts.iter().any(|part| holds(&part.bytes, boundary.as_bytes())) {
                break boundary;
            }
        };
        let mut bytes = Vec::new();
        for part in &parts {
            bytes.extend_from_slice(format!("--{boundary}\r\n{}\r\n\r\n", part.head()).as_bytes());
            bytes.extend_from_slice(&part.bytes);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Ok(WrittenBody { bytes, media_type: format!("multipart/form-data; boundary={boundary}") })
    }

    fn part<'a>(&self, name: &'a str, value: &Value) -> Result<FormPart<'a>, String> {
        let media_type = self.media_type(name).map(str::to_owned);
        if self.files.contains(name) {
            return file_part(name, value, media_type);
        }
        Ok(match single(value) {
            Some(text) => FormPart { name, file: None, media_type, bytes: text.into_bytes() },
            // Objects are JSON in a form, as the specification says.
            None => {
                let media_type = media_type.or_else(|| Some("application/json".into()));
                FormPart { name, file: None, media_type, bytes: value.to_string().into_bytes() }
            }
        })
    }
}

impl FormPart<'_> {
    fn head(&self) -> String {
        let mut head = format!("content-disposition: form-data; name=\"{}\"", quoted(self.name));
        if let Some(file) = &self.file {
            head += &format!("; filename=\"{}\"", quoted(file));
        }
        if let Some(media_type) = &self.media_type {
            head += &format!("\r\ncontent-type: {media_type}");
        }
        head
    }
}

/// Reads the file that a model passes.
fn file_part<'a>(name: &'a str, value: &Value, media_type: Option<String>) -> Result<FormPart<'a>, String> {
    let Value::Object(file) = value else {
        return Err("is a file: write `{\"name\": …, \"text\": …}`, or `base64` in place of `text`".into());
    };
    let text = |key: &str| match file.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("has a `{key}` that is not a text")),
    };
    let bytes = match (text("text")?, text("base64")?) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(encoded)) => BASE64.decode(encoded).map_err(|_| "has a `base64` that is not base64")?,
        _ => return Err("is a file, which has either `text` or `base64`".into()),
    };
    let own = text("media_type")?;
    if own.is_some_and(|own| !is_media_type(own)) {
        return Err("has a `media_type` that is not of the form `type/subtype`".into());
    }
    let named = text("name")?.unwrap_or("file");
    if named.is_empty() || named.len() > limits::OPENAPI_FILE_NAME_BYTES || named.contains(['/', '\\']) {
        let most = limits::OPENAPI_FILE_NAME_BYTES;
        return Err(format!("has a `name` that is not 1 to {most} bytes without `/` and `\\`"));
    }
    let media_type = own.map(str::to_owned).or(media_type).or_else(|| Some(BINARY.into()));
    Ok(FormPart { name, file: Some(named.to_owned()), media_type, bytes })
}

/// Returns `true` for the schema of a file: bytes, but not bytes as base64 text.
fn is_file(map: &JsonMap) -> bool {
    let text = |key: &str| map.get(key).and_then(JsonNode::text);
    let types = map.get("type").map_or(&[][..], JsonNode::list);
    let is_text = match map.get("type") {
        Some(one) => one.text() == Some("string") || types.iter().any(|one| one.text() == Some("string")),
        None => true,
    };
    // In OpenAPI 3.0 a file is a string with the format `binary`; since 3.1 it has a media type, and need not have a type.
    let is_binary = |media_type: &str| !media_type.starts_with("text/") && !is_json(media_type);
    let has_media_type = text("contentMediaType").is_some_and(is_binary) && !map.contains_key("contentEncoding");
    is_text && (text("format") == Some("binary") || has_media_type)
}

/// Returns the schema of a file, with what the document says about it.
fn file_schema(media_type: Option<&str>, about: Option<&str>) -> JsonNode {
    let kind = media_type.map_or_else(String::new, |media_type| format!(" of type {media_type}"));
    let about = about.map_or_else(String::new, |about| format!("{about}\n"));
    let schema = json!({
        "type": "object",
        "description": format!("{about}A file{kind}: its content is either `text` or `base64`."),
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": limits::OPENAPI_FILE_NAME_BYTES},
            "text": {"type": "string"},
            "base64": {"type": "string"},
            "media_type": {"type": "string"},
        },
        "additionalProperties": false,
    });
    node(schema)
}

fn node(value: Value) -> JsonNode {
    match value {
        Value::Object(map) => JsonNode::Object(map.into_iter().map(|(name, value)| (name, node(value))).collect()),
        Value::Array(list) => JsonNode::List(list.into_iter().map(node).collect()),
        leaf => JsonNode::Leaf(leaf),
    }
}

/// Returns `true` for a media type without parameters: it becomes part of a header.
fn is_media_type(text: &str) -> bool {
    let is_token = |token: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !token.is_empty() && token.bytes().all(is_part)
    };
    let parts = text.split_once('/');
    text.len() <= limits::OPENAPI_FILE_NAME_BYTES && parts.is_some_and(|(kind, of)| is_token(kind) && is_token(of))
}

/// Returns a name for a header of a part: quotes and control characters are percent-encoded, as browsers do it.
fn quoted(name: &str) -> String {
    let mut quoted = String::new();
    for c in name.chars() {
        match c {
            '"' | '\\' | '\0'..='\u{1f}' | '\u{7f}' => quoted += &format!("%{:02X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests;
