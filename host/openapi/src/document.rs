//! Documents: their text, parsed within bounds, and references in it.

use serde_json::Value;

use shelly_core::{
    error::{cut, legible},
    json_schema::{JsonMap, JsonNode},
    limits,
};

/// A parsed OpenAPI document of version 3.0 or 3.1.
#[derive(Debug, Clone)]
pub(crate) struct ApiDocument {
    root: JsonNode,
}

impl ApiDocument {
    /// Parses a document in JSON or YAML.
    ///
    /// # Errors
    ///
    /// A message that says why it cannot be used.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (bytes, most) = (text.len(), limits::OPENAPI_DOCUMENT_BYTES);
        if bytes > most {
            return Err(format!("the document has {bytes} bytes, the maximum is {most}"));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err("the document is empty".into());
        }
        let root = match text.trim_start().starts_with('{') {
            true => of_json(text)?,
            false => of_yaml(text)?,
        };
        let Some(map) = root.map() else { return Err("the document is not a mapping".into()) };
        check_version(map)?;
        Ok(Self { root })
    }

    /// Returns the value of a key at the top.
    pub fn get(&self, key: &str) -> Option<&JsonNode> {
        self.root.map()?.get(key)
    }

    /// Returns the object that a node is or refers to.
    ///
    /// # Errors
    ///
    /// A message that names the reference which cannot be followed, or says that the node is not a mapping.
    pub fn object<'a>(&'a self, node: &'a JsonNode, what: &str) -> Result<&'a JsonMap, String> {
        self.followed(node)?.map().ok_or_else(|| format!("{what} is not a mapping"))
    }

    /// Returns the node to which the references of a node lead.
    fn followed<'a>(&'a self, mut node: &'a JsonNode) -> Result<&'a JsonNode, String> {
        for _ in 0..limits::OPENAPI_REFERENCES {
            match node.map().and_then(|map| map.get("$ref")).and_then(JsonNode::text) {
                Some(target) => node = self.target(target)?,
                None => return Ok(node),
            }
        }
        Err(format!("more than {} references lead to each other", limits::OPENAPI_REFERENCES))
    }

    /// Returns the node to which a reference leads, within this document alone.
    ///
    /// # Errors
    ///
    /// A message that names the reference.
    pub fn target(&self, target: &str) -> Result<&JsonNode, String> {
        let shown = legible(&cut(target, limits::NAME_SHOWN_CHARS));
        match target.starts_with('#') {
            true => self.root.find(target).ok_or_else(|| format!("the reference `{shown}` leads nowhere")),
            false => Err(format!("the reference `{shown}` leads out of the document; bundle it into one file")),
        }
    }
}

/// Checks that the document is of a version that the host reads.
fn check_version(map: &JsonMap) -> Result<(), String> {
    if map.contains_key("swagger") {
        return Err("a Swagger 2 document; convert it to OpenAPI 3".into());
    }
    let version = match map.get("openapi") {
        Some(JsonNode::Leaf(Value::String(version))) => version.clone(),
        // YAML reads `3.1` as a number.
        Some(JsonNode::Leaf(Value::Number(version))) => version.to_string(),
        _ => return Err("not an OpenAPI document: the key `openapi` is missing".into()),
    };
    let mut parts = version.split('.');
    match (parts.next(), parts.next()) {
        (Some("3"), Some("0" | "1")) => Ok(()),
        _ => {
            let shown = legible(&cut(&version, limits::NAME_SHOWN_CHARS));
            Err(format!("the OpenAPI version `{shown}` is not supported; use 3.0 or 3.1"))
        }
    }
}

fn of_json(text: &str) -> Result<JsonNode, String> {
    let size = JsonSize::of(text.as_bytes());
    if size.values > limits::OPENAPI_VALUES {
        return Err(format!("the document has more than {} values", limits::OPENAPI_VALUES));
    }
    if size.depth > limits::OPENAPI_DEPTH {
        return Err(format!("the document has more than {} nested lists and mappings", limits::OPENAPI_DEPTH));
    }
    serde_json::from_str(text).map_err(|error| format!("the document is not JSON: {}", legible(&error.to_string())))
}

fn of_yaml(text: &str) -> Result<JsonNode, String> {
    let most = limits::OPENAPI_VALUES;
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_nodes: most,
            max_events: 2 * most,
            max_depth: limits::OPENAPI_DEPTH,
        },
        // Values that aliases repeat count each time.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: most },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let why = error.without_snippet().to_string();
        format!("the document cannot be read: {}", legible(&cut(&why, limits::ERROR_BYTES / 16)))
    })
}

/// The size of JSON text, measured before it is parsed.
struct JsonSize {
    /// At least the number of values.
    values: usize,
    depth: usize,
}

impl JsonSize {
    fn of(json: &[u8]) -> Self {
        let (mut values, mut depth, mut deepest) = (1, 0_usize, 0);
        let mut is_in_text = false;
        let mut bytes = json.iter();
        while let Some(byte) = bytes.next() {
            match (is_in_text, byte) {
                // The escaped byte does not end the text.
                (true, b'\\') => drop(bytes.next()),
                (_, b'"') => is_in_text = !is_in_text,
                (false, b',') => values += 1,
                (false, b'[' | b'{') => {
                    (values, depth) = (values + 1, depth + 1);
                    deepest = deepest.max(depth);
                }
                (false, b']' | b'}') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Self { values, depth: deepest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_in_json_and_yaml_are_read() {
        for text in [
            r#"{"openapi": "3.0.3", "paths": {"/a": {"get": {"responses": {"200": {}}}}}}"#,
            "openapi: 3.1.0\npaths:\n  /a:\n    get:\n      responses:\n        200: {}\n",
            "\u{feff}openapi: 3.1\npaths: {/a: {get: {responses: {200: {}}}}}\n",
            "openapi: '3.0.0'\nx: &r {responses: {200: {}}}\npaths: {/a: {get: *r}}\n",
        ] {
            let document = ApiDocument::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            let found = document.target("#/paths/~1a/get/responses/200").unwrap();
            assert_eq!(*found, JsonNode::default(), "{text}");
        }
    }

    #[test]
    fn unusable_document_is_refused_with_reason() {
        let json = |inner: &str| format!(r#"{{"openapi": "3.0.0", "x": {inner}}}"#);
        let deep = limits::OPENAPI_DEPTH;
        for (text, says) in [
            (String::new(), "the document is empty"),
            ("[]".into(), "the document is not a mapping"),
            ("a: b".into(), "the key `openapi` is missing"),
            ("swagger: '2.0'".into(), "convert it to OpenAPI 3"),
            ("openapi: 3.2.0".into(), "the OpenAPI version `3.2.0` is not supported; use 3.0 or 3.1"),
            ("openapi: \"3.\\u001b[2J\"".into(), "the OpenAPI version `3.\\u{1b}[2J` is not supported"),
            ("{".into(), "the document is not JSON: EOF"),
            ("openapi: [".into(), "the document cannot be read: "),
            (json(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))), "more than 100 nested lists and mappings"),
            (json(&format!("[{}1]", "1,".repeat(limits::OPENAPI_VALUES))), "more than 500000 values"),
            (format!("openapi: 3.0.0\nx: [{}1]", "1,".repeat(limits::OPENAPI_VALUES)), "the document cannot be read"),
            (" ".repeat(limits::OPENAPI_DOCUMENT_BYTES + 1), "bytes, the maximum is 8388608"),
        ] {
            let told = ApiDocument::parse(&text).err().unwrap_or_default();
            assert!(told.contains(says), "{}: {told}", &text[..text.len().min(80)]);
            assert!(!told.contains(|c: char| c.is_control()), "{told:?}");
        }
        // Aliases that repeat each other would fill the memory.
        let mut bomb = "openapi: 3.0.0\na0: &a0 [1,1,1,1,1,1,1,1,1]\n".to_owned();
        for n in 1..9 {
            let of_last = format!("*a{},", n - 1).repeat(9);
            bomb += &format!("a{n}: &a{n} [{}]\n", of_last.trim_end_matches(','));
        }
        assert!(ApiDocument::parse(&bomb).err().unwrap().contains("the document cannot be read"));
    }

    #[test]
    fn references_stay_within_the_document() {
        let text = "openapi: 3.0.0\na: {$ref: '#/b'}\nb: {$ref: '#/c'}\nc: {x: 1}\nloop: {$ref: '#/loop'}\nlist: []\n";
        let document = ApiDocument::parse(text).unwrap();
        let of = |key: &str| document.object(document.get(key).unwrap(), key).map(JsonMap::len);
        assert_eq!((of("a"), of("c")), (Ok(1), Ok(1)));
        assert_eq!(of("loop"), Err("more than 32 references lead to each other".into()));
        assert_eq!(of("list"), Err("list is not a mapping".into()));
        for (target, says) in [
            ("#/none", "the reference `#/none` leads nowhere"),
            ("other.yaml#/a", "the reference `other.yaml#/a` leads out of the document"),
            ("https://h.example/a", "leads out of the document"),
            ("file:///etc/passwd", "leads out of the document"),
        ] {
            assert!(document.target(target).unwrap_err().contains(says), "{target}");
        }
    }
}
