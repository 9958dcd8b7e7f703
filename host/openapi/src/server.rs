//! Servers: the URLs below which the paths of a document are.

use serde_json::Value;
use url::Url;

use super::{document::ApiDocument, shown_text::shown_text};
use shelly_core::{
    json_schema::{JsonMap, JsonNode},
    limits,
};

/// The rules for the servers in a document, which follow from the config and from where the document comes from.
#[derive(Clone, Copy)]
pub(crate) struct ServerRules<'a> {
    /// The URL that the config names in place of the servers of the document.
    pub base: Option<&'a str>,
    /// The URL of the document, if it is not a file.
    pub document_url: Option<&'a Url>,
}

impl ServerRules<'_> {
    /// Returns the URL below which the paths of the document are: that of the config, or the first server of the document.
    ///
    /// # Errors
    ///
    /// A message that says why there is none.
    pub fn base(&self, document: &ApiDocument) -> Result<Url, String> {
        let hint = "set `base` to the URL of the API";
        let Some(named) = self.base else {
            let server = document.get("servers").and_then(|servers| servers.list().first()).and_then(JsonNode::map);
            let server = server.ok_or_else(|| format!("the document names no server; {hint}"))?;
            let text = filled(server).map_err(|why| format!("the server of the document {why}; {hint}"))?;
            let shown = shown_text(&text, limits::NAME_SHOWN_CHARS);
            let url = match self.document_url {
                Some(document_url) => document_url.join(&text),
                None => Url::parse(&text),
            };
            let url =
                url.map_err(|error| format!("the server `{shown}` of the document cannot be used: {error}; {hint}"))?;
            if let Some(own) = self.other_origin(&url) {
                return Err(format!(
                    "the document at {own} names the server `{shown}`, which is at another origin; {hint}"
                ));
            }
            return checked(url).map_err(|why| format!("the server `{shown}` of the document {why}; {hint}"));
        };
        let url = Url::parse(named).map_err(|error| format!("base: not a URL: {error}"))?;
        checked(url).map_err(|why| format!("base: {why}"))
    }

    /// Returns the first of the servers that a path or an operation has for itself. `base` is the URL of all others.
    ///
    /// # Errors
    ///
    /// A message that says why no request may go there.
    pub fn own(&self, servers: &JsonNode, base: &Url) -> Result<Url, String> {
        let server = servers.list().first().and_then(JsonNode::map).ok_or("its own server is not a mapping")?;
        let text = filled(server).map_err(|why| format!("its own server {why}"))?;
        let shown = shown_text(&text, limits::NAME_SHOWN_CHARS);
        let url = self.document_url.unwrap_or(base).join(&text);
        let url = url.map_err(|error| format!("its own server `{shown}` cannot be used: {error}"))?;
        let url = checked(url).map_err(|why| format!("its own server `{shown}` {why}"))?;
        if self.base.is_some() && !is_below(&url, base) {
            return Err(format!("its own server `{shown}` is not below `base`; remove `base`, or name both APIs"));
        }
        match self.other_origin(&url).filter(|_| self.base.is_none()) {
            Some(own) => Err(format!(
                "its own server `{shown}` is another one than that of the document at {own}; use a copy of the document in \
                 a file"
            )),
            None => Ok(url),
        }
    }

    /// Returns the origin of the document if it has a URL and the server is at another origin: the author of a document must
    /// not choose where requests go.
    fn other_origin(&self, server: &Url) -> Option<String> {
        let document_url = self.document_url.filter(|document_url| document_url.origin() != server.origin())?;
        Some(document_url.origin().ascii_serialization())
    }
}

/// Checks the URL below which paths are.
fn checked(url: Url) -> Result<Url, String> {
    match url.scheme() {
        "http" | "https" if url.has_host() => {}
        _ => return Err("must begin with https:// or http://".into()),
    }
    // In a grant `*` stands for every name, and redirects could lead to any of them.
    if url.host_str().is_some_and(|host| host.contains('*')) {
        return Err("must not have `*` in its host".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have a user or a password; use `credential`".into());
    }
    match url.query().is_some() || url.fragment().is_some() {
        true => Err("must not have a query or a fragment".into()),
        false => Ok(url),
    }
}

fn is_below(url: &Url, base: &Url) -> bool {
    let below = url.path().strip_prefix(base.path().trim_end_matches('/'));
    url.origin() == base.origin() && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the URL of a server with the defaults of its variables. To choose other values, a person sets `base`.
fn filled(server: &JsonMap) -> Result<String, String> {
    let mut rest = server.get("url").and_then(JsonNode::text).ok_or("has no URL")?;
    let variables = server.get("variables").and_then(JsonNode::map);
    let mut url = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("has `{` without `}` in its URL")?;
        let shown = shown_text(name, limits::NAME_SHOWN_CHARS);
        let variable = variables.and_then(|variables| variables.get(name)).and_then(JsonNode::map);
        let default = variable.and_then(|variable| variable.get("default"));
        let default =
            default.and_then(of_leaf).ok_or_else(|| format!("has the variable `{shown}` without a default"))?;
        let values = variable.and_then(|variable| variable.get("enum")).map_or(&[][..], JsonNode::list);
        if !values.is_empty() && !values.iter().any(|value| of_leaf(value).as_ref() == Some(&default)) {
            return Err(format!("has the variable `{shown}` with a default that is none of its values"));
        }
        url += before;
        url += &default;
        rest = after;
        if url.len() > limits::EGRESS_URL_BYTES {
            return Err(format!("has a URL of more than {} bytes", limits::EGRESS_URL_BYTES));
        }
    }
    Ok(url + rest)
}

/// Returns the value of a variable: YAML reads a port as a number.
fn of_leaf(node: &JsonNode) -> Option<String> {
    match node {
        JsonNode::Leaf(Value::String(text)) => Some(text.clone()),
        JsonNode::Leaf(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(servers: &str) -> ApiDocument {
        ApiDocument::parse(&format!("openapi: 3.0.0\nservers: {servers}\n")).unwrap()
    }

    #[test]
    fn server_variables_have_their_defaults() {
        let rules = ServerRules { base: None, document_url: None };
        let long = "x".repeat(limits::EGRESS_URL_BYTES);
        let too_long = format!("[{{url: 'https://h.example/{{v}}', variables: {{v: {{default: {long}}}}}}}]");
        for (servers, expected) in [
            (
                "[{url: 'https://{host}.example:{port}/{v}', variables: {host: {default: eu, enum: [us, eu]}, port: {default: \
                 8443}, v: {default: v3}}}]",
                Ok("https://eu.example:8443/v3"),
            ),
            ("[{url: 'https://h.example/{v}'}]", Err("has the variable `v` without a default; set `base`")),
            (
                "[{url: 'https://h.example/{v}', variables: {v: {enum: [a]}}}]",
                Err("the variable `v` without a default"),
            ),
            (
                "[{url: 'https://h.example/{v}', variables: {v: {default: b, enum: [a]}}}]",
                Err("the variable `v` with a default that is none of its values; set `base`"),
            ),
            ("[{url: 'https://h.example/{v'}]", Err("has `{` without `}` in its URL")),
            (&too_long, Err("has a URL of more than")),
        ] {
            let found = rules.base(&document(servers)).map(String::from);
            match expected {
                Ok(url) => assert_eq!(found.as_deref(), Ok(url)),
                Err(says) => assert!(found.as_ref().is_err_and(|why| why.contains(says)), "{servers}: {found:?}"),
            }
        }
    }

    #[test]
    fn own_server_is_within_base_or_the_origin_of_the_document() {
        let (url, base) =
            (Url::parse("https://docs.example/api/v3.json").unwrap(), Url::parse("https://h.example/v1").unwrap());
        let file = ServerRules { base: None, document_url: None };
        let fetched = ServerRules { base: None, document_url: Some(&url) };
        let fixed = ServerRules { base: Some("https://h.example/v1"), document_url: Some(&url) };
        for (rules, servers, expected) in [
            (file, "[{url: 'https://other.example/x'}, {url: 'https://h.example'}]", Ok("https://other.example/x")),
            (file, "[{url: /v2}]", Ok("https://h.example/v2")),
            (file, "[{url: 'ftp://h'}]", Err("its own server `ftp://h` must begin with https://")),
            (file, "[{url: 'https://*.example'}]", Err("its own server `https://*.example` ")),
            (file, "[{url: 'https://u:p@h'}]", Err("must not have a user or a password")),
            (file, "[{}]", Err("its own server has no URL")),
            (file, "[7]", Err("its own server is not a mapping")),
            (fetched, "[{url: upload}]", Ok("https://docs.example/api/upload")),
            (
                fetched,
                "[{url: 'https://evil.example'}]",
                Err("another one than that of the document at https://docs.example"),
            ),
            (fixed, "[{url: 'https://h.example/v1/upload'}]", Ok("https://h.example/v1/upload")),
            (fixed, "[{url: 'https://h.example/v1'}]", Ok("https://h.example/v1")),
            (fixed, "[{url: 'https://h.example/v10'}]", Err("is not below `base`")),
            (fixed, "[{url: 'https://docs.example/v1'}]", Err("is not below `base`")),
            (fixed, "[{url: 'https://h.example/v1/../admin'}]", Err("is not below `base`")),
        ] {
            let found = rules.own(document(servers).get("servers").unwrap(), &base).map(String::from);
            match expected {
                Ok(url) => assert_eq!(found.as_deref(), Ok(url), "{servers}"),
                Err(says) => assert!(found.as_ref().is_err_and(|why| why.contains(says)), "{servers}: {found:?}"),
            }
        }
    }
}
