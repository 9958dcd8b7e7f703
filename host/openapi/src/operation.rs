//! Operations of a document, each as the tool that it becomes.

use std::{collections::BTreeSet, sync::Arc};

use ipnet::IpNet;
use serde_json::{Value, json};
use url::Url;

use super::{
    document::ApiDocument,
    parameter::{DescribedParameter, Parameter, ParameterLocation},
    path_template::PathTemplate,
    request_body::{DescribedBody, RequestBody},
    security::{CredentialPlace, SecurityRequirements},
    server::ServerRules,
    shown_text::shown_text,
    tool_schema::schema_of,
};
use shelly_core::{
    capability::{HttpGrant, READING_METHODS},
    chat::{ToolHints, ToolSpec},
    digest::Sha256Digest,
    error::Fault,
    json_schema::{JsonMap, JsonNode},
    limits,
    tool::{InputSchema, described},
};
use shelly_net::egress::{CredentialUse, EgressRequest, EgressRequestBody};

/// An operation of an API.
#[derive(Debug)]
pub struct ApiOperation {
    /// The name in configs: its `operationId`, or method and path.
    pub name: String,
    /// The method, in upper case.
    pub method: String,
    /// The path below the base, with parameters in braces.
    pub path: String,
    /// The tool as it is described to a model.
    pub spec: Arc<ToolSpec>,
    /// The digest of everything that the document says about the operation.
    pub digest: String,
    /// The grant for its requests: its method, at its path up to the first parameter.
    pub grant: HttpGrant,
    security: SecurityRequirements,
    /// The URL below which the path is, without a slash at the end.
    base: String,
    template: PathTemplate,
    parameters: Vec<Parameter>,
    body: Option<RequestBody>,
    schema: InputSchema,
}

/// An operation of a document before it is read.
pub(crate) struct OperationNode<'a> {
    pub method: String,
    pub path: &'a str,
    /// The operation.
    pub map: &'a JsonMap,
    /// The parameters of all operations at this path.
    pub shared: Option<&'a JsonNode>,
    /// The servers of all operations at this path, if the path has its own.
    pub servers: Option<&'a JsonNode>,
}

/// The facts that all operations of a document share.
pub(crate) struct OperationContext<'a> {
    pub document: &'a ApiDocument,
    /// The URL below which the paths without servers of their own are.
    pub base: &'a Url,
    pub servers: ServerRules<'a>,
    pub networks: &'a [IpNet],
    /// The place of the credential that the host adds.
    pub credential: Option<&'a CredentialPlace>,
}

impl OperationNode<'_> {
    /// Returns its `operationId`, or method and path.
    pub fn name(&self) -> String {
        self.id().map_or_else(|| self.place(), |id| shown_text(id, limits::NAME_SHOWN_CHARS))
    }

    fn id(&self) -> Option<&str> {
        self.map.get("operationId").and_then(JsonNode::text).map(str::trim).filter(|id| !id.is_empty())
    }

    /// Returns method and path.
    pub fn place(&self) -> String {
        format!("{} {}", self.method, shown_text(self.path, limits::OPENAPI_PATTERN_BYTES))
    }

    /// Returns the name of the tool before it is made unique: its `operationId`, or method and path.
    pub fn tool_name(&self) -> String {
        self.id().map_or_else(|| self.place_as_name(), str::to_owned)
    }

    /// Returns method and path in characters of a tool's name: `GET_pets_petId`.
    pub fn place_as_name(&self) -> String {
        let words = self.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.fold(self.method.clone(), |name, word| name + "_" + word)
    }
}

impl ApiOperation {
    /// Reads an operation as a tool of this name.
    ///
    /// # Errors
    ///
    /// A message that says why it cannot be a tool.
    pub(crate) fn read(
        node: &OperationNode<'_>,
        name: String,
        tool_name: String,
        cx: &OperationContext<'_>,
    ) -> Result<Self, String> {
        let OperationNode { method, path, map, shared, servers } = node;
        let own = [map.get("servers"), *servers].into_iter().flatten().find(|servers| !servers.list().is_empty());
        let server = own.map(|servers| cx.servers.own(servers, cx.base)).transpose()?;
        let template = PathTemplate::parse(path)?;
        let mut parameters = parameters(node, [*shared, map.get("parameters")], cx)?;
        let body = map.get("requestBody").map(|body| DescribedBody::read(cx.document, body)).transpose()?.flatten();
        if body.is_some() && READING_METHODS.contains(&method.as_str()) {
            return Err(format!("a {method} request with a body is not supported"));
        }
        let described_in_path = |name: &str| {
            let is_it = |one: &DescribedParameter<'_>| {
                one.parameter.location == ParameterLocation::Path && one.parameter.name == name
            };
            parameters.iter().any(is_it)
        };
        if let Some(missing) = template.parameters().find(|name| !described_in_path(name)) {
            let shown = shown_text(missing, limits::NAME_SHOWN_CHARS);
            return Err(format!("the path parameter `{shown}` is not described"));
        }
        name_arguments(&mut parameters, body.is_some());
        let of_parameters =
            parameters.iter().map(|one| (one.parameter.argument.clone(), one.value, one.parameter.is_required));
        let of_body = body.iter().map(|one| (one.body.argument.clone(), one.value, one.body.is_required));
        let properties: Vec<_> = of_parameters.chain(of_body).collect();
        let mut schema = schema_of(cx.document, &properties)?;
        if let Some(described) = &body {
            described.body.describe_files(&mut schema);
        }
        let (parameters, body) =
            (parameters.into_iter().map(|one| one.parameter).collect::<Vec<_>>(), body.map(|described| described.body));
        let base = server.as_ref().unwrap_or(cx.base).as_str().trim_end_matches('/').to_owned();
        let grant =
            HttpGrant::entry(&format!("{base}{}", template.prefix()), std::slice::from_ref(method), cx.networks)?;
        let input_schema = schema.to_json();
        let value: Value = serde_json::from_str(&input_schema).map_err(|error| error.to_string())?;
        let checked = InputSchema::new(&value).map_err(|why| format!("the schema cannot be enforced: {why}"))?;
        let hints = ToolHints { read_only: READING_METHODS.contains(&method.as_str()), ..ToolHints::default() };
        let description = description(node);
        let digest = json!({
            "name": &name,
            "place": [&base, method, path],
            "description": &description,
            "schema": &value,
            "parameters": parameters.iter().map(Parameter::written).collect::<Vec<_>>(),
            "body": body.as_ref().map(RequestBody::written),
        });
        let spec = described(tool_name, description, input_schema, hints)?;
        Ok(Self {
            name,
            method: method.clone(),
            path: shown_text(path, limits::OPENAPI_PATTERN_BYTES),
            spec: Arc::new(spec),
            digest: Sha256Digest::of(digest.to_string()).hex(),
            grant,
            security: SecurityRequirements::read(cx.document, map.get("security")),
            base,
            template,
            parameters,
            body,
            schema: checked,
        })
    }

    /// Returns the URL below which the path is, without a slash at the end.
    pub fn server(&self) -> &str {
        &self.base
    }

    /// Returns the security requirements that a credential at `place` does not meet, in words; `None` if it meets them.
    pub fn unmet_security(&self, place: Option<&CredentialPlace>) -> Option<String> {
        self.security.unmet(place)
    }

    /// Returns the request for a call with these arguments.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the arguments do not fit the schema, or a value cannot be written where it belongs.
    pub fn request(&self, arguments: &str) -> Result<EgressRequest, Fault> {
        let mut arguments: Value = serde_json::from_str(arguments)
            .map_err(|error| Fault::invalid(format!("the arguments are not JSON: {error}")))?;
        if let Value::Object(map) = &mut arguments {
            // An optional value that is null is left out.
            map.retain(|name, value| !value.is_null() || self.requires(name));
        }
        let arguments = &arguments;
        self.schema.check(arguments).map_err(Fault::invalid)?;
        let at = |location: ParameterLocation| {
            let here = self.parameters.iter().filter(move |one| one.location == location);
            here.filter_map(move |one| Some((one, arguments.get(&one.argument)?)))
        };
        let path = self.template.filled(|name| {
            let found = at(ParameterLocation::Path).find(|(parameter, _)| parameter.name == name);
            let (parameter, value) =
                found.ok_or_else(|| Fault::invalid(format!("the path parameter `{name}` is missing")))?;
            parameter.in_path(value)
        })?;
        let mut pairs = Vec::new();
        for (parameter, value) in at(ParameterLocation::Query) {
            pairs.extend(parameter.in_query(value)?);
        }
        let mut headers = vec![("accept".to_owned(), ACCEPTED.into())];
        for (parameter, value) in at(ParameterLocation::Header) {
            headers.push((parameter.name.clone(), parameter.in_header(value)?.into_bytes()));
        }
        let cookies = at(ParameterLocation::Cookie).map(|(parameter, value)| parameter.in_cookie(value));
        let cookies = cookies.collect::<Result<Vec<_>, _>>()?;
        if !cookies.is_empty() {
            headers.push(("cookie".into(), cookies.join("; ").into_bytes()));
        }
        let mut body = EgressRequestBody::default();
        if let Some(described) = &self.body
            && let Some(value) = arguments.get(&described.argument)
        {
            let written = described.write(value)?;
            body = EgressRequestBody::Bytes(written.bytes.into());
            headers.push(("content-type".into(), written.media_type.into_bytes()));
        }
        let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
        let url = format!("{}{path}{query}", self.base);
        self.check_place(&url, &path)?;
        Ok(EgressRequest {
            method: self.method.clone(),
            url,
            headers,
            credential: CredentialUse::Any,
            // A redirect of a change would be followed with another method, or repeat the change elsewhere.
            follow: READING_METHODS.contains(&self.method.as_str()),
            timeout: Some(limits::TOOL_TIME),
            idle: None,
            span: None,
            body,
        })
    }

    /// Returns `true` if the argument of this name is required.
    fn requires(&self, name: &str) -> bool {
        let of_parameters = self.parameters.iter().map(|one| (&one.argument, one.is_required));
        let of_body = self.body.iter().map(|one| (&one.argument, one.is_required));
        of_parameters.chain(of_body).any(|(argument, is_required)| is_required && argument == name)
    }

    /// Checks that a URL parser does not change the path, so that no argument leads to another path or host.
    fn check_place(&self, url: &str, path: &str) -> Result<(), Fault> {
        let elsewhere = || Fault::invalid("the arguments lead to another URL than that of the operation");
        let (url, base) = (Url::parse(url).map_err(|_| elsewhere())?, Url::parse(&self.base).map_err(|_| elsewhere())?);
        let expected = format!("{}{path}", base.path().trim_end_matches('/'));
        match url.origin() == base.origin() && url.path() == expected && url.fragment().is_none() {
            true => Ok(()),
            false => Err(elsewhere()),
        }
    }
}

/// The value of the header `accept`: the media types that a model can use best come first.
const ACCEPTED: &[u8] = b"application/json, text/*;q=0.9, */*;q=0.8";

/// Returns the parameters of an operation. Its own replace those of its path with the same name and location.
fn parameters<'a>(
    node: &OperationNode<'a>,
    lists: [Option<&'a JsonNode>; 2],
    cx: &OperationContext<'a>,
) -> Result<Vec<DescribedParameter<'a>>, String> {
    let mut parameters: Vec<DescribedParameter<'a>> = Vec::new();
    let is_credential = |one: &DescribedParameter<'_>| match (cx.credential, one.parameter.location) {
        (Some(CredentialPlace::Header { name, .. }), ParameterLocation::Header) => {
            name.eq_ignore_ascii_case(&one.parameter.name)
        }
        (Some(CredentialPlace::Query(name)), ParameterLocation::Query) => *name == one.parameter.name,
        // A request has one header for all cookies.
        (Some(place), ParameterLocation::Cookie) => place.is_cookie(),
        _ => false,
    };
    for described in lists.into_iter().flatten().flat_map(JsonNode::list) {
        let Some(one) = DescribedParameter::read(cx.document, described)? else { continue };
        // The host adds the credential itself.
        if is_credential(&one) {
            continue;
        }
        let key = |one: &DescribedParameter<'_>| (one.parameter.name.clone(), one.parameter.location);
        parameters.retain(|before| key(before) != key(&one));
        parameters.push(one);
        // Each one is compared with all others, which would take too long for a hostile document with many.
        if parameters.len() > limits::OPENAPI_PARAMETERS {
            return Err(format!("the operation has more than {} parameters", limits::OPENAPI_PARAMETERS));
        }
    }
    // A parameter that the path does not have would have no effect.
    let named: BTreeSet<_> = node.path.split(['{', '}']).skip(1).step_by(2).collect();
    let is_sent = |one: &DescribedParameter<'_>| {
        one.parameter.location != ParameterLocation::Path || named.contains(one.parameter.name.as_str())
    };
    parameters.retain(is_sent);
    Ok(parameters)
}

/// Gives each parameter an argument name of its own: its name, followed by its location if another parameter has that name.
fn name_arguments(parameters: &mut [DescribedParameter<'_>], has_body: bool) {
    let mut taken: BTreeSet<String> = has_body.then(|| "body".to_owned()).into_iter().collect();
    for DescribedParameter { parameter, .. } in parameters {
        let placed = format!("{}_{}", parameter.name, parameter.location.word());
        let numbered = (2..).map(|n| format!("{placed}_{n}"));
        let mut names = [parameter.name.clone(), placed.clone()].into_iter().chain(numbered);
        // There are more candidates than parameters, so one is free.
        if let Some(free) = names.find(|name| !taken.contains(name)) {
            parameter.argument.clone_from(&free);
            taken.insert(free);
        }
    }
}

/// Returns the description of an operation for a model: summary, description, and the request.
fn description(node: &OperationNode<'_>) -> String {
    let text = |key: &str| node.map.get(key).and_then(JsonNode::text).map(str::trim).filter(|text| !text.is_empty());
    let (summary, about) = (text("summary"), text("description"));
    let about = about.filter(|about| Some(*about) != summary);
    let texts: Vec<_> = [summary, about].into_iter().flatten().collect();
    let mut description = shown_text(&texts.join("\n\n"), limits::OPENAPI_DESCRIPTION_CHARS);
    if !description.is_empty() {
        description += "\n\n";
    }
    let deprecated = if node.map.get("deprecated") == Some(&JsonNode::Leaf(true.into())) { " Deprecated." } else { "" };
    description + "Sends " + &node.place() + "." + deprecated
}

#[cfg(test)]
mod tests;
