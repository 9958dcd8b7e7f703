//! The operations of a document.

use std::{collections::BTreeSet, sync::Arc};

use ipnet::IpNet;
use url::Url;

use super::{
    document::ApiDocument,
    operation::{ApiOperation, OperationContext, OperationNode},
    operation_pattern::OperationPattern,
    security::CredentialPlace,
    server::ServerRules,
    shown_text::shown_text,
};
use shelly_core::{
    capability::is_method,
    error::{cut, legible},
    json_schema::{JsonMap, JsonNode},
    limits,
};

/// The methods of which a path may have operations, in the order in which they are listed.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The facts about an API that its document does not contain: what the config says, and where the document comes from.
#[derive(Clone, Copy)]
pub struct ListingOptions<'a> {
    /// The URL below which the paths are; `None`: the first server of the document, of the path, or of the operation.
    pub base: Option<&'a str>,
    /// The URL of the document, if it is not a file. The servers in it must then be at the same origin, unless `base` is
    /// set: the author of a document must not choose where requests go.
    pub document_url: Option<&'a Url>,
    /// Networks that the name in the base may lead to besides public addresses.
    pub networks: &'a [IpNet],
    /// The place of the credential that the host adds.
    pub credential: Option<&'a CredentialPlace>,
    /// Returns the name by which a model calls an operation of this name.
    pub tool_name: &'a dyn Fn(&str) -> String,
}

/// The operations of an API.
#[derive(Debug)]
pub struct ApiListing {
    /// The URL below which the paths without servers of their own are.
    pub base: Url,
    /// The operations that can be tools, in the order of the document.
    pub operations: Vec<Arc<ApiOperation>>,
    /// The operations that cannot be tools.
    pub left_out: Vec<LeftOutOperation>,
}

/// An operation that cannot be a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutOperation {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// The operations that a config selects.
#[derive(Debug, Default)]
pub struct SelectedOperations {
    /// The operations, in the order of the document.
    pub operations: Vec<Arc<ApiOperation>>,
    /// The names that select nothing.
    pub unknown: Vec<String>,
}

impl ApiListing {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// A message that says why the whole document cannot be used.
    pub fn read(text: &str, options: &ListingOptions<'_>) -> Result<Self, String> {
        let document = ApiDocument::parse(text)?;
        let servers = ServerRules { base: options.base, document_url: options.document_url };
        let base = servers.base(&document)?;
        let cx = OperationContext {
            document: &document,
            base: &base,
            servers,
            networks: options.networks,
            credential: options.credential,
        };
        let mut reader = ListingReader {
            cx,
            tool_name: options.tool_name,
            names: BTreeSet::new(),
            tools: BTreeSet::new(),
            servers: BTreeSet::new(),
            operations: Vec::new(),
            left_out: Vec::new(),
        };
        let paths = document.get("paths").and_then(JsonNode::map);
        for (path, item) in paths.into_iter().flatten() {
            match document.object(item, "the path") {
                Ok(item) => reader.add_path(path, item)?,
                Err(why) => reader.leave_out(shown_text(path, limits::OPENAPI_PATTERN_BYTES), why),
            }
        }
        let (operations, left_out) = (reader.operations, reader.left_out);
        Ok(Self { base, operations, left_out })
    }

    /// Returns the operations that these names select; `None`: all.
    ///
    /// # Errors
    ///
    /// A message if they are too many for the tools of a model.
    pub fn select(&self, patterns: Option<&[OperationPattern]>) -> Result<SelectedOperations, String> {
        let all = self.operations.iter();
        let selected = |one: &&Arc<ApiOperation>| {
            patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.selects(one)))
        };
        let operations: Vec<_> = all.filter(selected).cloned().collect();
        let bytes: usize =
            operations.iter().map(|one| one.spec.description.len() + one.spec.input_schema.get().len()).sum();
        if operations.len() > limits::OPENAPI_TOOLS || bytes > limits::SPECS_BYTES {
            let (count, most, most_bytes) = (operations.len(), limits::OPENAPI_TOOLS, limits::SPECS_BYTES);
            return Err(format!(
                "{count} operations with {bytes} bytes of descriptions and schemas, the maximum is {most} with {most_bytes}"
            ));
        }
        let selects_none = |pattern: &&OperationPattern| !operations.iter().any(|one| pattern.selects(one));
        let unknown = patterns.unwrap_or_default().iter().filter(selects_none);
        let unknown = unknown.map(|pattern| pattern.as_str().to_owned()).collect();
        Ok(SelectedOperations { operations, unknown })
    }

    /// Returns the servers to which operations send requests, that of the document first.
    pub fn servers(&self) -> Vec<String> {
        let base = self.base.as_str().trim_end_matches('/');
        let own: BTreeSet<_> =
            self.operations.iter().map(|one| one.server()).filter(|server| *server != base).collect();
        let is_used = self.operations.iter().any(|one| one.server() == base) || own.is_empty();
        is_used.then(|| self.base.to_string()).into_iter().chain(own.into_iter().map(str::to_owned)).collect()
    }

    /// Returns the operation of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<ApiOperation>> {
        self.operations.iter().find(|one| one.name == name)
    }
}

/// Reads the operations of a document one after the other, and keeps their names apart.
struct ListingReader<'a> {
    cx: OperationContext<'a>,
    tool_name: &'a dyn Fn(&str) -> String,
    /// The names of operations so far.
    names: BTreeSet<String>,
    /// The names of tools so far, in lower case.
    tools: BTreeSet<String>,
    /// The servers so far.
    servers: BTreeSet<String>,
    operations: Vec<Arc<ApiOperation>>,
    left_out: Vec<LeftOutOperation>,
}

impl ListingReader<'_> {
    fn leave_out(&mut self, name: String, why: String) {
        let why = legible(&cut(&why, limits::ERROR_BYTES / 16));
        self.left_out.push(LeftOutOperation { name, why });
    }

    /// Adds the operations of a path.
    fn add_path(&mut self, path: &str, item: &JsonMap) -> Result<(), String> {
        for method in METHODS {
            let Some(node) = item.get(method) else { continue };
            if self.operations.len() + self.left_out.len() >= limits::OPENAPI_OPERATIONS {
                return Err(format!("the document has more than {} operations", limits::OPENAPI_OPERATIONS));
            }
            let method = method.to_ascii_uppercase();
            let Some(map) = node.map() else {
                let place = format!("{method} {}", shown_text(path, limits::OPENAPI_PATTERN_BYTES));
                self.leave_out(place, "the operation is not a mapping".into());
                continue;
            };
            let (shared, servers) = (item.get("parameters"), item.get("servers"));
            let node = OperationNode { method, path, map, shared, servers };
            let name = match node.name() {
                name if self.names.contains(&name) => node.place(),
                name => name,
            };
            let read = match is_method(&node.method) {
                false => Err(format!("the method {} is not supported", node.method)),
                true => self.free_name(&node).and_then(|tool| ApiOperation::read(&node, name.clone(), tool, &self.cx)),
            };
            match read.and_then(|operation| self.with_server(operation)) {
                Ok(operation) => {
                    self.names.insert(name);
                    self.tools.insert(operation.spec.name.to_ascii_lowercase());
                    self.operations.push(Arc::new(operation));
                }
                Err(why) => self.leave_out(name, why),
            }
        }
        Ok(())
    }

    /// Adds the server of an operation to those of the document.
    fn with_server(&mut self, operation: ApiOperation) -> Result<ApiOperation, String> {
        let most = limits::OPENAPI_SERVERS;
        if self.servers.len() >= most && !self.servers.contains(operation.server()) {
            return Err(format!("the operations before it have {most} servers already, which is the maximum"));
        }
        self.servers.insert(operation.server().to_owned());
        Ok(operation)
    }

    /// Returns the name of the tool of an operation: method and path are added to a name that another one has.
    fn free_name(&self, node: &OperationNode<'_>) -> Result<String, String> {
        let own = node.tool_name();
        let names = [own.clone(), format!("{own}_{}", node.place_as_name())];
        let mut names = names.iter().map(|name| (self.tool_name)(name));
        let free = names.find(|name| !self.tools.contains(&name.to_ascii_lowercase()));
        free.ok_or_else(|| "another operation has the same name".into())
    }
}

#[cfg(test)]
mod tests;
