//! Lists the MCP servers of a config, and approves their tools.

use std::{fmt::Write, path::PathBuf, sync::Arc};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    app::{App, ConnectedMcpServer},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    cli::{
        ask::{self, Consent, ConsentPrompt},
        command_runtime::runtime,
        config_path::read_config,
        host_environment::{compiling, environment, plugin_dirs},
        render::{
            self, CliOutputFormat, RunOutputFormat, escaped, json_line, name, one_line, print, print_for_people, tell,
        },
        trust,
    },
    config::McpServerConfig,
    error::{ErrorKind, Report},
    mcp::{McpClient, PinStatus, Pins, ServerTool},
};

/// List the MCP servers of the config, and the approval of their tools.
///
/// Starts or contacts each server. Tools that are new, or have changed since you approved them, are left out of every run
/// until you approve them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host mcp list
  shelly-host mcp list files")]
pub struct McpListArgs {
    /// The server whose tools are listed with their descriptions (default: all servers, without their tools).
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    #[command(flatten)]
    from: McpConfigArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

/// Approve the current tools of an MCP server.
///
/// Shows every tool that is new or has changed, and asks you. Read the descriptions before you approve them: models follow
/// what a description says.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host mcp approve files
  shelly-host mcp approve files read_file write_file --yes")]
pub struct McpApproveArgs {
    /// The server.
    #[arg(value_name = "SERVER")]
    server: String,
    /// Approve only these tools, by the server's own names.
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    /// Approve everything that is shown, without asking.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    from: McpConfigArgs,
}

/// Asks the person to approve what was shown. `unapproved` is the message if no person can be asked.
pub async fn ask_for_approval(unapproved: String) -> Result<(), Report> {
    if !ask::is_attended() {
        return Err(Report::new(ErrorKind::Usage, unapproved)
            .cause("no terminal to ask on")
            .hint("approve without asking with --yes"));
    }
    match ask::trust("", ConsentPrompt::YesOrNo).await {
        Consent::Yes => Ok(()),
        Consent::Once | Consent::No => Err(Report::new(ErrorKind::Usage, "nothing was approved").cause("you declined")),
    }
}

/// The config that names the servers or the APIs.
#[derive(Args)]
pub struct McpConfigArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
    #[arg(long)]
    trust: bool,
}

impl McpListArgs {
    pub fn execute(self) -> u8 {
        let output = self.output.into();
        self.list().unwrap_or_else(|report| render::failed(&report, output))
    }

    fn list(&self) -> Result<u8, Report> {
        let app = self.from.app()?;
        let configs: Vec<_> = match &self.server {
            None => app.servers().iter().collect(),
            Some(server) => app.servers().iter().filter(|config| config.name == *server).collect(),
        };
        runtime()?.block_on(async {
            self.from.admit(&app).await?;
            if let (Some(server), []) = (&self.server, &configs[..]) {
                app.server(server).await.map(|_| ())?;
            }
            let mut listed = Vec::new();
            let mut failed = None;
            for config in configs {
                match app.server(&config.name).await {
                    Ok(server) => {
                        listed.push(if self.output == CliOutputFormat::Json {
                            json_of(config, &server)
                        } else {
                            print_for_people(&shown(config, &server, self.server.is_some()))?;
                            Value::Null
                        });
                        server.client.close().await;
                    }
                    Err(report) => {
                        let hint = report.hint.as_ref().map_or_else(String::new, |hint| format!(" ({})", name(hint)));
                        tell(&format!("{}{hint}\n", one_line(&report.to_string(), 1_000)));
                        listed.push(json!({"name": config.name, "error": report.to_string()}));
                        failed = Some(report.kind.exit_code());
                    }
                }
            }
            match self.output {
                CliOutputFormat::Json => print(&json_line(&json!({ "servers": listed })))?,
                CliOutputFormat::Text if listed.is_empty() => {
                    print("the config has no MCP server; add one under `mcp_servers`")?
                }
                CliOutputFormat::Text => {}
            }
            Ok(failed.unwrap_or_default())
        })
    }
}

/// Connects to a server of the config. Returns what `mcp list` prints of it, and its connection; `None` if there is none.
pub async fn listed_server(app: &App, config: &McpServerConfig) -> (String, Option<Arc<McpClient>>) {
    match app.server(&config.name).await {
        Ok(server) => (escaped(&shown(config, &server, false)), Some(server.client)),
        Err(report) => (format!("{}\n", one_line(&report.with_hint(), 1_000)), None),
    }
}

impl McpApproveArgs {
    pub fn execute(self) -> u8 {
        self.approve().map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    fn approve(&self) -> Result<(), Report> {
        let app = self.from.app()?;
        runtime()?.block_on(async {
            self.from.admit(&app).await?;
            let server = app.server(&self.server).await?;
            let done = self.decide(&app, &server).await;
            server.client.close().await;
            done
        })
    }

    async fn decide(&self, app: &App, server: &ConnectedMcpServer) -> Result<(), Report> {
        let listing = server.client.listing();
        let names = || listing.tools.iter().map(|tool| tool.name.as_str());
        if let Some(unknown) = self.tools.iter().find(|tool| !names().any(|name| name == tool.as_str())) {
            let report = crate::config::unknown("tool", unknown, names());
            return Err(report.cause(format!("the MCP server `{}` does not offer it", self.server)));
        }
        let before = server.pins.clone().unwrap_or_default();
        let is_meant = |tool: &ServerTool| self.tools.is_empty() || self.tools.contains(&tool.name);
        let is_new = |tool: &ServerTool| before.state(&tool.name, &tool.digest) != PinStatus::Unchanged;
        let wanted: Vec<_> = listing.tools.iter().filter(|tool| is_meant(tool) && is_new(tool)).collect();
        let mut after: Pins = match self.tools.is_empty() {
            // Approving all tools also forgets those that are gone.
            true => Pins::default(),
            false => before.clone(),
        };
        let kept = listing.tools.iter().filter(|tool| self.tools.is_empty() && !is_new(tool));
        kept.chain(wanted.iter().copied()).for_each(|tool| after.approve(&*tool.name, &*tool.digest));
        if wanted.is_empty() {
            if after != before || server.pins.is_none() {
                app.approve(&self.server, &after)?;
            }
            return print("nothing to approve: no tool is new or has changed");
        }
        let mut text = String::new();
        for tool in &wanted {
            text += &in_full(tool, before.state(&tool.name, &tool.digest));
        }
        print_for_people(&text)?;
        if !self.yes {
            ask_for_approval(format!("{} of `{}` are not approved", counted(wanted.len()), self.server)).await?;
        }
        app.approve(&self.server, &after)?;
        print(&format!("{} approved", counted(wanted.len())))
    }
}

impl McpConfigArgs {
    pub fn app(&self) -> Result<App, Report> {
        let (config, broker) = (
            read_config(self.config.as_ref())?,
            ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default()),
        );
        let app = App::new(config, plugin_dirs(&[]), compiling(), environment(), broker)?;
        Ok(app.with_approvals(trust::store(), false).with_logins(trust::logins()))
    }

    /// Requires the person's consent to the project's files, since the servers that they name are started or contacted.
    pub async fn admit(&self, app: &App) -> Result<(), Report> {
        let standing = app.standing(&trust::store(), self.config.is_some())?;
        trust::admitted(&standing, self.trust, ask::is_attended()).await.map(|_| ())
    }
}

fn counted(tools: usize) -> String {
    if tools == 1 { "one tool".into() } else { format!("{tools} tools") }
}

/// Returns the word for the state of a tool.
pub fn state_word(state: PinStatus) -> &'static str {
    match state {
        PinStatus::Unchanged => "approved",
        PinStatus::New => "new",
        PinStatus::Changed => "changed",
        PinStatus::Gone => "gone",
    }
}

fn states(server: &ConnectedMcpServer) -> Vec<(String, PinStatus)> {
    server.pins.clone().unwrap_or_default().compare(&server.client.listing()).into_iter().collect()
}

fn shown(config: &McpServerConfig, server: &ConnectedMcpServer, with_tools: bool) -> String {
    let (listing, states) = (server.client.listing(), states(server));
    let mut text = format!("{}: ", config.name);
    let count = |state| states.iter().filter(|(_, there)| *there == state).count();
    let _ = match server.pins {
        None => writeln!(text, "{}, approved at the first use of the server", counted(listing.tools.len())),
        Some(_) => {
            let counts = [PinStatus::Unchanged, PinStatus::New, PinStatus::Changed, PinStatus::Gone]
                .map(|state| (state, count(state)));
            let counts = counts.into_iter().filter(|(_, count)| *count > 0);
            let counts: Vec<_> = counts.map(|(state, count)| format!("{count} {}", state_word(state))).collect();
            writeln!(text, "{}", if counts.is_empty() { "no tools".into() } else { counts.join(", ") })
        }
    };
    if with_tools {
        for (tool, state) in &states {
            let state = if server.pins.is_none() { "" } else { state_word(*state) };
            let about = listing.find(tool).map_or("", |tool| &tool.spec.description);
            let _ = writeln!(text, "  {:28} {state:8} {}", name(tool), one_line(about, 200));
        }
    }
    for refused in &listing.refused {
        let _ = writeln!(text, "  {:28} unusable {}", name(&refused.name), one_line(&refused.why, 300));
    }
    text
}

/// Formats everything that a tool says of itself, for the person who is to approve it.
fn in_full(tool: &ServerTool, state: PinStatus) -> String {
    let spec = &tool.spec;
    // Nothing is cut, since a person cannot approve what is not shown. Each line is marked, so that it cannot pass for one
    // of the host.
    let marked = |text: &str| escaped(text).replace('\n', "\n    | ");
    let hints = spec.hints;
    let says = [
        ("read-only", hints.read_only),
        ("non-destructive", hints.non_destructive),
        ("idempotent", hints.idempotent),
        ("closed world", hints.closed_world),
    ];
    let says: Vec<_> = says.iter().filter(|(_, is_so)| *is_so).map(|(words, _)| *words).collect();
    let says = if says.is_empty() { "none".into() } else { says.join(", ") };
    format!(
        "{} ({}), named {} for models\n    | {}\n    input schema: {}\n    claimed hints: {says}\n",
        name(&tool.name),
        state_word(state),
        spec.name,
        marked(&spec.description),
        escaped(spec.input_schema.get()).replace('\n', " "),
    )
}

fn json_of(config: &McpServerConfig, server: &ConnectedMcpServer) -> Value {
    let listing = server.client.listing();
    let tools = states(server).into_iter().map(|(tool, state)| {
        let there = listing.find(&tool);
        json!({
            "name": tool,
            "state": if server.pins.is_none() { json!(null) } else { json!(state) },
            "called": there.map(|tool| tool.spec.name.clone()),
            "description": there.map(|tool| tool.spec.description.clone()),
            "digest": there.map(|tool| tool.digest.clone()),
        })
    });
    let refused = listing.refused.iter().map(|refused| json!({"name": refused.name, "why": refused.why}));
    json!({
        "name": config.name,
        "tools": tools.collect::<Vec<_>>(),
        "unusable": refused.collect::<Vec<_>>(),
    })
}
