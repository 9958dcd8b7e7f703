//! Parameters of operations: their locations in a request, and the styles in which values are written there.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::{document::ApiDocument, shown_text::shown_text, tool_schema::DescribedValue};
use shelly_core::{
    error::Fault,
    json_schema::{JsonMap, JsonNode},
    limits,
};
use shelly_net::egress::check_header_name;

/// All characters but those that RFC 3986 leaves unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Headers that other parts of a document describe. Parameters with these names are ignored, as the specification demands.
const DESCRIBED_ELSEWHERE: [&str; 3] = ["accept", "content-type", "authorization"];

/// Headers that identify the sender. Only the host may set them.
const SENDER_HEADERS: [&str; 2] = ["cookie", "proxy-authorization"];

/// A parameter of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// The name in the request.
    pub name: String,
    /// The name among the arguments of the tool.
    pub argument: String,
    pub location: ParameterLocation,
    pub is_required: bool,
    style: ParameterStyle,
}

/// The part of a request in which a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
    Header,
    Cookie,
}

/// The form in which a list or an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterStyle {
    /// Values with commas between them; `explode` writes a property as `key=value`.
    Simple { explode: bool },
    /// Pairs of name and value; `explode` writes a pair for each item or property.
    Form { explode: bool },
    /// A pair `name[key]=value` for each property.
    DeepObject,
    /// One JSON text.
    Json,
}

/// A parameter as the document describes it.
pub(crate) struct DescribedParameter<'a> {
    pub parameter: Parameter,
    pub value: DescribedValue<'a>,
}

impl ParameterLocation {
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Path, Self::Query, Self::Header, Self::Cookie].into_iter().find(|location| location.word() == word)
    }
}

impl<'a> DescribedParameter<'a> {
    /// Reads a parameter; `None` for a header that other parts of the document describe, and for an optional parameter that
    /// the host cannot send.
    ///
    /// # Errors
    ///
    /// A message that says why the host cannot send this required parameter.
    pub fn read(document: &'a ApiDocument, node: &'a JsonNode) -> Result<Option<Self>, String> {
        let map = document.object(node, "a parameter")?;
        let text = |key: &str| map.get(key).and_then(JsonNode::text);
        let name = text("name").filter(|name| !name.is_empty()).ok_or("a parameter has no name")?;
        let shown = shown_text(name, limits::NAME_SHOWN_CHARS);
        let location = text("in").and_then(ParameterLocation::of);
        let location =
            location.ok_or_else(|| format!("the parameter `{shown}` stands in an unknown part of the request"))?;
        let is_required = location == ParameterLocation::Path || is_true(map, "required");
        if location == ParameterLocation::Header && DESCRIBED_ELSEWHERE.contains(&&*name.to_ascii_lowercase()) {
            return Ok(None);
        }
        let style = check_name(name, location).and_then(|()| style_of(map, location));
        let style = match style {
            Ok(style) => style,
            Err(_) if !is_required => return Ok(None),
            Err(why) => return Err(format!("the {} parameter `{shown}` {why}", location.word())),
        };
        let schema = map.get("schema").or_else(|| json_content(map)?.1.map()?.get("schema"));
        let description = text("description").unwrap_or_default();
        let is_deprecated = is_true(map, "deprecated");
        let parameter = Parameter { name: name.into(), argument: name.into(), location, is_required, style };
        Ok(Some(Self { parameter, value: DescribedValue { schema, description, is_deprecated } }))
    }
}

/// Returns `true` if the value of a key is `true`.
pub(crate) fn is_true(map: &JsonMap, key: &str) -> bool {
    map.get(key) == Some(&JsonNode::Leaf(true.into()))
}

/// Returns the media type among those of `content` that is JSON, with its description.
pub(crate) fn json_content(map: &JsonMap) -> Option<(&String, &JsonNode)> {
    map.get("content")?.map()?.iter().find(|(name, _)| is_json(name))
}

/// Returns `true` for the media types of JSON, and for ranges that include it.
pub(crate) fn is_json(media_type: &str) -> bool {
    let plain = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(&*plain, "application/json" | "application/*" | "*/*") || plain.ends_with("+json")
}

/// Checks that the host can send a parameter of this name.
fn check_name(name: &str, location: ParameterLocation) -> Result<(), String> {
    match location {
        ParameterLocation::Path | ParameterLocation::Query => Ok(()),
        ParameterLocation::Header if SENDER_HEADERS.contains(&&*name.to_ascii_lowercase()) => {
            Err("is a header that identifies the sender, which a model may not set".into())
        }
        ParameterLocation::Header => check_header_name(name).map_err(|fault| format!("cannot be sent: {fault}")),
        ParameterLocation::Cookie => {
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            match name.bytes().all(is_token) {
                true => Ok(()),
                false => Err("has characters that a cookie's name cannot have".into()),
            }
        }
    }
}

fn style_of(map: &JsonMap, location: ParameterLocation) -> Result<ParameterStyle, String> {
    if !map.contains_key("schema") && map.contains_key("content") {
        return match json_content(map) {
            Some(_) => Ok(ParameterStyle::Json),
            None => Err("has a media type other than JSON, which is not supported".into()),
        };
    }
    let default = match location {
        ParameterLocation::Path | ParameterLocation::Header => "simple",
        ParameterLocation::Query | ParameterLocation::Cookie => "form",
    };
    let style = map.get("style").and_then(JsonNode::text).unwrap_or(default);
    let explode = match map.get("explode") {
        Some(JsonNode::Leaf(Value::Bool(explode))) => *explode,
        _ => style == "form",
    };
    match (location, style) {
        (ParameterLocation::Path | ParameterLocation::Header, "simple") => Ok(ParameterStyle::Simple { explode }),
        (ParameterLocation::Query | ParameterLocation::Cookie, "form") => Ok(ParameterStyle::Form { explode }),
        (ParameterLocation::Query, "deepObject") => Ok(ParameterStyle::DeepObject),
        _ => Err(format!(
            "has the style `{}`, which is not supported there",
            shown_text(style, limits::NAME_SHOWN_CHARS)
        )),
    }
}

impl Parameter {
    /// Returns the style, for the digest of the operation.
    pub fn written(&self) -> String {
        format!("{} {} {:?}", self.location.word(), self.name, self.style)
    }

    /// Returns the text that takes the place of the parameter in a path, percent-encoded.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] for a value that could lead to another path.
    pub fn in_path(&self, value: &Value) -> Result<String, Fault> {
        let text = self.simple(value, &|text| {
            // Servers decode these characters at different stages, so they could lead to another path.
            match text.contains(['/', '\\', '%', ';', '\0']) {
                true => {
                    Err(self
                        .wrong("must not contain `/`, `\\`, `%`, `;` or a zero byte, because it is one part of a path"))
                }
                false => Ok(encoded(text)),
            }
        })?;
        match text.is_empty() {
            true => Err(self.wrong("must not be empty, because it is a part of the path")),
            false => Ok(text),
        }
    }

    /// Returns the value of the parameter as a header.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] for a value that does not fit into one header.
    pub fn in_header(&self, value: &Value) -> Result<String, Fault> {
        let text = self.simple(value, &|text| Ok(text.to_owned()))?;
        match text.chars().any(char::is_control) {
            true => Err(self.wrong("must not contain line breaks or other control characters, because it is a header")),
            false => Ok(text),
        }
    }

    /// Returns the parameter as a cookie.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] for a list or an object.
    pub fn in_cookie(&self, value: &Value) -> Result<String, Fault> {
        let text = match self.style {
            ParameterStyle::Json => value.to_string(),
            _ => self.single(value)?,
        };
        Ok(format!("{}={}", self.name, encoded(&text)))
    }

    /// Returns the pairs of name and value in a query, percent-encoded.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] for a value that the style of the parameter cannot express.
    pub fn in_query(&self, value: &Value) -> Result<Vec<String>, Fault> {
        let name = &self.name;
        Ok(match (self.style, value) {
            (ParameterStyle::Json, value) => vec![pair(name, &value.to_string())],
            (ParameterStyle::DeepObject, Value::Object(map)) => {
                deep_pairs(name, map).map_err(|why| self.wrong(&why))?
            }
            (ParameterStyle::DeepObject, _) => return Err(self.wrong("must be an object")),
            (ParameterStyle::Form { explode: true }, Value::Array(list)) => {
                list.iter().map(|one| Ok(pair(name, &self.single(one)?))).collect::<Result<_, Fault>>()?
            }
            (ParameterStyle::Form { explode: true }, Value::Object(map)) => {
                map.iter().map(|(key, one)| Ok(pair(key, &self.single(one)?))).collect::<Result<_, Fault>>()?
            }
            (_, Value::Array(list)) if list.is_empty() => Vec::new(),
            (_, value) => vec![format!("{}={}", encoded(name), self.simple(value, &|text| Ok(encoded(text)))?)],
        })
    }

    /// Writes a value with commas between its parts, each of which `write` converts.
    fn simple(&self, value: &Value, write: &dyn Fn(&str) -> Result<String, Fault>) -> Result<String, Fault> {
        let explode = matches!(self.style, ParameterStyle::Simple { explode: true });
        let parts = match (self.style, value) {
            (ParameterStyle::Json, value) => return write(&value.to_string()),
            (_, Value::Array(list)) => {
                list.iter().map(|one| write(&self.single(one)?)).collect::<Result<Vec<_>, Fault>>()?
            }
            (_, Value::Object(map)) => {
                let property = |(key, one): (&String, &Value)| {
                    let between = if explode { "=" } else { "," };
                    Ok(format!("{}{between}{}", write(key)?, write(&self.single(one)?)?))
                };
                map.iter().map(property).collect::<Result<Vec<_>, Fault>>()?
            }
            (_, one) => return write(&self.single(one)?),
        };
        Ok(parts.join(","))
    }

    fn single(&self, value: &Value) -> Result<String, Fault> {
        single(value).ok_or_else(|| self.wrong("must not contain lists or objects within each other"))
    }

    fn wrong(&self, why: &str) -> Fault {
        Fault::invalid(format!("the {} parameter `{}` {why}", self.location.word(), self.argument))
    }
}

/// Returns a value that is neither a list nor an object as text.
pub(crate) fn single(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns a pair of name and value, percent-encoded.
pub(crate) fn pair(name: &str, value: &str) -> String {
    format!("{}={}", encoded(name), encoded(value))
}

/// Returns a pair `name[key]=value` for each property.
///
/// # Errors
///
/// A message for a property that is an object or a list.
pub(crate) fn deep_pairs(name: &str, map: &Map<String, Value>) -> Result<Vec<String>, String> {
    let property = |(key, value): (&String, &Value)| {
        let text = single(value).ok_or("must be an object whose properties are neither lists nor objects")?;
        Ok(pair(&format!("{name}[{key}]"), &text))
    };
    map.iter().map(property).collect()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameter(location: ParameterLocation, style: ParameterStyle) -> Parameter {
        Parameter { name: "p".into(), argument: "p".into(), location, is_required: false, style }
    }

    #[test]
    fn values_are_written_in_their_style() {
        let (list, object) = (json!(["a b", 1, true]), json!({"k": "v&w", "n": 2}));
        let path = |explode| parameter(ParameterLocation::Path, ParameterStyle::Simple { explode });
        for (value, explode, written) in [
            (json!("a b"), false, "a%20b"),
            (json!(-1.5), false, "-1.5"),
            (json!("ü?#&=+:@"), false, "%C3%BC%3F%23%26%3D%2B%3A%40"),
            (list.clone(), false, "a%20b,1,true"),
            (object.clone(), false, "k,v%26w,n,2"),
            (object.clone(), true, "k=v%26w,n=2"),
        ] {
            assert_eq!(path(explode).in_path(&value), Ok(written.into()), "{value}");
        }
        let query = |style| parameter(ParameterLocation::Query, style);
        for (value, style, written) in [
            (json!("a b"), ParameterStyle::Form { explode: true }, "p=a%20b"),
            (json!(""), ParameterStyle::Form { explode: true }, "p="),
            (list.clone(), ParameterStyle::Form { explode: true }, "p=a%20b&p=1&p=true"),
            (list.clone(), ParameterStyle::Form { explode: false }, "p=a%20b,1,true"),
            (json!([]), ParameterStyle::Form { explode: false }, ""),
            (object.clone(), ParameterStyle::Form { explode: true }, "k=v%26w&n=2"),
            (object.clone(), ParameterStyle::Form { explode: false }, "p=k,v%26w,n,2"),
            (object.clone(), ParameterStyle::DeepObject, "p%5Bk%5D=v%26w&p%5Bn%5D=2"),
            (object.clone(), ParameterStyle::Json, "p=%7B%22k%22%3A%22v%26w%22%2C%22n%22%3A2%7D"),
        ] {
            assert_eq!(query(style).in_query(&value).map(|pairs| pairs.join("&")), Ok(written.into()), "{value}");
        }
        let header = parameter(ParameterLocation::Header, ParameterStyle::Simple { explode: false });
        assert_eq!(header.in_header(&list), Ok("a b,1,true".into()));
        let cookie = parameter(ParameterLocation::Cookie, ParameterStyle::Form { explode: true });
        assert_eq!(cookie.in_cookie(&json!("a; b=c")), Ok("p=a%3B%20b%3Dc".into()));
    }

    #[test]
    fn values_that_leave_their_place_are_refused() {
        let path = parameter(ParameterLocation::Path, ParameterStyle::Simple { explode: false });
        for value in ["a/b", "..\\x", "%2e%2e", "a;b", "a\0b"] {
            let told = path.in_path(&json!(value)).unwrap_err().to_string();
            assert!(told.starts_with("the path parameter `p` must not contain `/`"), "{told}");
        }
        for empty in [json!(""), json!([]), json!({})] {
            assert!(path.in_path(&empty).unwrap_err().to_string().contains("must not be empty"), "{empty}");
        }
        let header = parameter(ParameterLocation::Header, ParameterStyle::Simple { explode: false });
        for value in ["a\r\nx: y", "a\nb", "a\u{0}b"] {
            assert!(header.in_header(&json!(value)).unwrap_err().to_string().contains("must not contain line breaks"));
        }
        let nested = json!({"a": {"b": 1}});
        let query = |style| parameter(ParameterLocation::Query, style);
        for (style, says) in [
            (ParameterStyle::DeepObject, "must be an object whose properties are neither"),
            (ParameterStyle::Form { explode: true }, "must not contain lists or objects within each other"),
            (ParameterStyle::Form { explode: false }, "must not contain lists or objects within each other"),
        ] {
            assert!(query(style).in_query(&nested).unwrap_err().to_string().contains(says), "{style:?}");
        }
        assert!(
            query(ParameterStyle::DeepObject)
                .in_query(&json!(1))
                .unwrap_err()
                .to_string()
                .contains("must be an object")
        );
        let cookie = parameter(ParameterLocation::Cookie, ParameterStyle::Form { explode: true });
        assert!(cookie.in_cookie(&json!([1])).is_err());
    }

    #[test]
    fn described_parameters_are_read_or_refused() {
        let document = ApiDocument::parse(
            "openapi: 3.0.0\nps:\n\
             - {name: id, in: path, schema: {type: string}}\n\
             - {name: q, in: query, style: deepObject, schema: {type: object}}\n\
             - {name: f, in: query, content: {application/json: {schema: {type: object}}}}\n\
             - {name: X-Trace, in: header, schema: {type: string}}\n\
             - {name: s, in: cookie, schema: {type: string}}\n\
             - {name: Accept, in: header, required: true, schema: {type: string}}\n\
             - {name: Cookie, in: header, schema: {type: string}}\n\
             - {name: d, in: query, style: pipeDelimited, schema: {type: array}}\n\
             - {name: d, in: query, required: true, style: pipeDelimited, schema: {type: array}}\n\
             - {name: m, in: path, style: matrix, schema: {type: string}}\n\
             - {name: x, in: query, required: true, content: {text/csv: {}}}\n\
             - {name: Cookie, in: header, required: true, schema: {type: string}}\n\
             - {name: Host, in: header, required: true, schema: {type: string}}\n\
             - {name: Transfer-Encoding, in: header, required: true}\n\
             - {name: 'a b', in: cookie, required: true}\n\
             - {name: b, in: body}\n\
             - {in: query}\n\
             - 7\n",
        )
        .unwrap();
        let read = |node| {
            let found = DescribedParameter::read(&document, node)?;
            Ok::<_, String>(found.map(|found| found.parameter.written()).unwrap_or_default())
        };
        let found: Vec<_> = document.get("ps").unwrap().list().iter().map(read).collect();
        let expected = [
            Ok("path id Simple { explode: false }"),
            Ok("query q DeepObject"),
            Ok("query f Json"),
            Ok("header X-Trace Simple { explode: false }"),
            Ok("cookie s Form { explode: true }"),
            Ok(""),
            Ok(""),
            Ok(""),
            Err("the query parameter `d` has the style `pipeDelimited`, which is not supported there"),
            Err("the path parameter `m` has the style `matrix`, which is not supported there"),
            Err("the query parameter `x` has a media type other than JSON, which is not supported"),
            Err("the header parameter `Cookie` is a header that identifies the sender, which a model may not set"),
            Err("the header parameter `Host` cannot be sent: the header `Host` is set by the host; leave it out"),
            Err(
                "the header parameter `Transfer-Encoding` cannot be sent: the header `Transfer-Encoding` is set by the host; leave it out",
            ),
            Err("the cookie parameter `a b` has characters that a cookie's name cannot have"),
            Err("the parameter `b` stands in an unknown part of the request"),
            Err("a parameter has no name"),
            Err("a parameter is not a mapping"),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        }
        assert_eq!(found.len(), expected.len());
    }
}
