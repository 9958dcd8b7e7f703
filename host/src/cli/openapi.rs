//! The subcommand `openapi`: lists the APIs of a config and the operations of single documents, and approves operations of
//! documents at URLs.

use std::{fmt::Write, path::Path};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    command_runtime::runtime,
    mcp::{McpConfigArgs, ask_for_approval, state_word},
    render::{
        self, CliOutputFormat, RunOutputFormat, escaped, json_line, name, one_line, path_name, print, print_for_people,
        tell,
    },
};
use crate::{
    app::{App, ReadApi},
    config::{OpenApiConfig, document_text, unknown},
    error::{ErrorKind, Report},
    mcp::{PinStatus, Pins, tool_name},
    openapi::{ApiListing, ApiOperation, ListingOptions},
};

/// Commands for APIs that OpenAPI documents describe.
#[derive(Subcommand)]
pub enum OpenApiCommand {
    List(OpenApiListArgs),
    Approve(OpenApiApproveArgs),
}

/// List the APIs of the config, and their operations.
///
/// Fetches each document that is at a URL. Its operations that are new, or have changed since you approved them, are left out
/// of every run until you approve them. A document that is a file, or whose digest the config names, needs no approval.
///
/// The path of a document in place of an API lists what an API of it would have. No config is read and nothing is sent.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host openapi list
  shelly-host openapi list petstore
  shelly-host openapi list ./petstore.yaml")]
pub struct OpenApiListArgs {
    /// The API whose operations are listed, also those that cannot be tools, or the path of a document, which has a dot or a
    /// slash in it (default: all APIs, without their operations).
    #[arg(value_name = "API")]
    api: Option<String>,
    #[command(flatten)]
    from: McpConfigArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

/// Approve the current operations of an API whose document is at a URL.
///
/// Shows every operation that is new or has changed, and asks you. Read the descriptions before you approve them: models
/// follow what a description says.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host openapi approve petstore
  shelly-host openapi approve petstore listPets getPet --yes")]
pub struct OpenApiApproveArgs {
    /// The API.
    #[arg(value_name = "API")]
    api: String,
    /// Approve only these operations.
    #[arg(value_name = "OPERATION")]
    operations: Vec<String>,
    /// Approve everything that is shown, without asking.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    from: McpConfigArgs,
}

impl OpenApiCommand {
    pub fn execute(self) -> u8 {
        match self {
            Self::List(list) => {
                let output = list.output.into();
                list.list().unwrap_or_else(|report| render::failed(&report, output))
            }
            Self::Approve(approve) => {
                approve.approve().map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
            }
        }
    }
}

impl OpenApiListArgs {
    fn list(&self) -> Result<u8, Report> {
        // No name of an API has these characters.
        if let Some(path) = self.api.as_ref().filter(|api| api.contains(['.', '/', '\\'])) {
            return self.list_document(Path::new(path));
        }
        let app = self.from.app()?;
        let names = || app.apis().iter().map(|api| api.name.as_str());
        if let Some(api) = self.api.as_ref().filter(|api| !names().any(|known| known == api.as_str())) {
            return Err(unknown("API", api, names()));
        }
        let is_listed = |config: &&OpenApiConfig| self.api.as_ref().is_none_or(|api| config.name == *api);
        runtime()?.block_on(async {
            self.from.admit(&app).await?;
            let (mut listed, mut failed) = (Vec::new(), None);
            for config in app.apis().iter().filter(is_listed) {
                match app.read_api(&config.name).await {
                    Ok(api) if self.output == CliOutputFormat::Json => listed.push(json_of(config, &api)),
                    Ok(api) => {
                        print_for_people(&shown(config, &api, self.api.is_some()))?;
                        listed.push(Value::Null);
                    }
                    Err(report) => {
                        tell(&format!("{}\n", one_line(&report.with_hint(), 1_000)));
                        listed.push(json!({"name": config.name, "error": report.to_string()}));
                        failed = Some(report.kind.exit_code());
                    }
                }
            }
            match self.output {
                CliOutputFormat::Json => print(&json_line(&json!({ "apis": listed })))?,
                CliOutputFormat::Text if listed.is_empty() => print("the config has no API; add one under `openapi`")?,
                CliOutputFormat::Text => {}
            }
            Ok(failed.unwrap_or_default())
        })
    }
}

impl OpenApiListArgs {
    /// Lists the operations of a document alone. It is only read, so it needs no consent.
    fn list_document(&self, path: &Path) -> Result<u8, Report> {
        let unusable = |why: String| {
            let message = format!("the document {} cannot be listed", path_name(path));
            Report::new(ErrorKind::Usage, message).cause(why).hint("name an OpenAPI 3 document in JSON or YAML")
        };
        let text = document_text(path).map_err(unusable)?;
        let read = |base| {
            let tool_name = |operation: &str| tool_name("api", operation);
            let options =
                ListingOptions { base, document_url: None, networks: &[], credential: None, tool_name: &tool_name };
            ApiListing::read(&text, &options)
        };
        // Many documents name no server, or one relative to their own URL.
        let (listing, without_server) = match read(None) {
            Ok(listing) => (listing, None),
            Err(why) => (read(Some(NO_SERVER)).map_err(unusable)?, Some(why)),
        };
        match self.output {
            CliOutputFormat::Json => {
                let mut json = json_of_listing(&listing, |_| None);
                json["document"] = path.to_string_lossy().into();
                if let Some(why) = &without_server {
                    (json["base"], json["error"]) = (Value::Null, why.as_str().into());
                }
                print(&json_line(&json))?;
            }
            CliOutputFormat::Text => {
                let mut text = format!("{}: {}", path_name(path), counted(listing.operations.len()));
                let _ = match &without_server {
                    None => writeln!(text, " at {}", listing.base),
                    Some(why) => writeln!(text, "; {}", one_line(why, 300)),
                };
                print_for_people(&(text + &operation_lines(&listing, |_| None)))?;
            }
        }
        Ok(0)
    }
}

/// The URL below which the paths of a document are shown whose server is unknown.
const NO_SERVER: &str = "https://server.invalid";

impl OpenApiApproveArgs {
    fn approve(&self) -> Result<(), Report> {
        let app = self.from.app()?;
        runtime()?.block_on(async {
            self.from.admit(&app).await?;
            let api = app.read_api(&self.api).await?;
            self.decide(&app, &api).await
        })
    }

    async fn decide(&self, app: &App, api: &ReadApi) -> Result<(), Report> {
        let operations = &api.listing.operations;
        if let Some(wrong) = self.operations.iter().find(|name| api.listing.find(name).is_none()) {
            let report = unknown("operation", wrong, operations.iter().map(|one| one.name.as_str()));
            return Err(report.cause(format!("the document of the API `{}` does not have it", self.api)));
        }
        let Some(before) = &api.pins else {
            return print("nothing to approve: the document is a file, or the config names its digest");
        };
        let is_named = |one: &ApiOperation| self.operations.is_empty() || self.operations.contains(&one.name);
        // Approving all operations also forgets those that are gone.
        let mut after = if self.operations.is_empty() { Pins::default() } else { before.clone() };
        let mut wanted = Vec::new();
        for one in operations.iter().filter(|one| is_named(one)) {
            after.approve(&*one.name, &*one.digest);
            if before.state(&one.name, &one.digest) != PinStatus::Unchanged {
                wanted.push(one);
            }
        }
        if wanted.is_empty() {
            if after != *before || api.is_new {
                app.approve_operations(&self.api, &after)?;
            }
            return print("nothing to approve: no operation is new or has changed");
        }
        let in_full = wanted.iter().map(|one| in_full(one, before.state(&one.name, &one.digest)));
        print_for_people(&in_full.collect::<String>())?;
        if !self.yes {
            ask_for_approval(format!("{} of `{}` are not approved", counted(wanted.len()), self.api)).await?;
        }
        app.approve_operations(&self.api, &after)?;
        print(&format!("{} approved", counted(wanted.len())))
    }
}

fn counted(operations: usize) -> String {
    if operations == 1 { "one operation".into() } else { format!("{operations} operations") }
}

/// Returns the state of an operation; `None` if the document needs no approval, or nothing was approved yet.
fn state(api: &ReadApi, one: &ApiOperation) -> Option<PinStatus> {
    let pins = api.pins.as_ref().filter(|_| !api.is_new)?;
    Some(pins.state(&one.name, &one.digest))
}

fn shown(config: &OpenApiConfig, api: &ReadApi, with_operations: bool) -> String {
    let operations = &api.listing.operations;
    let mut text = format!("{}: {} at {}", config.name, counted(operations.len()), api.listing.base);
    let unapproved =
        operations.iter().filter_map(|one| state(api, one)).filter(|it| *it != PinStatus::Unchanged).count();
    let _ = match (api.is_new, unapproved) {
        (true, _) => writeln!(text, ", approved at the first use of the API"),
        (false, 0) => writeln!(text),
        (false, unapproved) => writeln!(text, ", {unapproved} not approved"),
    };
    if with_operations {
        text += &operation_lines(&api.listing, |one| state(api, one));
    } else if !api.listing.left_out.is_empty() {
        let _ = writeln!(text, "  {} that cannot be tools", counted(api.listing.left_out.len()));
    }
    text
}

/// Formats the operations of a document, one a line.
fn operation_lines(listing: &ApiListing, state: impl Fn(&ApiOperation) -> Option<PinStatus>) -> String {
    let mut text = String::new();
    let base = listing.base.as_str().trim_end_matches('/');
    for one in &listing.operations {
        let about = one.spec.description.lines().next().unwrap_or_default();
        let place = match one.server() == base {
            true => format!("{} {}", one.method, one.path),
            false => format!("{} {} at {}", one.method, one.path, one.server()),
        };
        let state = state(one).map_or("", state_word);
        let _ = writeln!(text, "  {:28} {state:8} {:32} {}", name(&one.name), name(&place), one_line(about, 100));
    }
    for one in &listing.left_out {
        let _ = writeln!(text, "  {:28} unusable {}", name(&one.name), one_line(&one.why, 300));
    }
    text
}

/// Formats everything that a document says of an operation, for the person who is to approve it.
fn in_full(one: &ApiOperation, state: PinStatus) -> String {
    // Nothing is cut, since a person cannot approve what is not shown. Each line is marked, so that it cannot pass for one
    // of the host.
    let description = escaped(&one.spec.description).replace('\n', "\n    | ");
    let schema = escaped(one.spec.input_schema.get()).replace('\n', " ");
    format!(
        "{} ({}), named {} for models\n    | {description}\n    input schema: {schema}\n",
        name(&one.name),
        state_word(state),
        one.spec.name
    )
}

fn json_of(config: &OpenApiConfig, api: &ReadApi) -> Value {
    let mut json = json_of_listing(&api.listing, |one| state(api, one));
    json["name"] = config.name.as_str().into();
    json
}

fn json_of_listing(listing: &ApiListing, state: impl Fn(&ApiOperation) -> Option<PinStatus>) -> Value {
    let operations = listing.operations.iter().map(|one| {
        json!({
            "name": one.name,
            "method": one.method,
            "path": one.path,
            "server": one.server(),
            "state": state(one),
            "called": one.spec.name,
            "description": one.spec.description,
            "digest": one.digest,
        })
    });
    let left_out = listing.left_out.iter().map(|one| json!({"name": one.name, "why": one.why}));
    json!({
        "base": listing.base.as_str(),
        "operations": operations.collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}
