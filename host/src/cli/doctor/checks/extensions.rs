//! Checks of plugins and of MCP servers.

use std::path::PathBuf;

use crate::{
    app::App,
    cli::{
        doctor::{doctor_context::DoctorContext, finding::UnnamedFinding},
        host_environment::plugin_dirs,
        plugin::catalog_of,
    },
    config::{Config, McpServerConfig},
    error::count,
    plugin::{CompileStep, PluginDirs, PluginLocation},
};

pub(super) fn plugins(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let none = Config::default();
    let config = context.config().unwrap_or(&none);
    let catalog = match catalog_of(config, &context.named_dirs) {
        Ok(catalog) => catalog,
        Err(report) => return vec![UnnamedFinding::of_report(&report)],
    };
    // Components are validated in a process of their own; no code of a plugin runs.
    context.block_on(catalog.open(catalog.iter().map(|(id, _)| id), CompileStep::Validate));
    let count_of = |is_there: &dyn Fn(&PluginLocation) -> bool| {
        let there = catalog.iter().filter(|(_, plugin)| is_there(plugin.location())).count();
        count(there as u64, "plugin", "plugins")
    };
    let line = |directory: PathBuf| {
        let there = match directory.is_dir() {
            true => count_of(&|plugin| plugin.lies_in(std::slice::from_ref(&directory))),
            false => "not there".into(),
        };
        format!("{}: {there}", directory.display())
    };
    let in_program = count_of(&|plugin| matches!(plugin, PluginLocation::Program(_)));
    let sources = directories(config, &context.named_dirs).into_iter().map(line);
    let sources = [format!("in the program: {in_program}")].into_iter().chain(sources);
    let all = catalog.iter().count();
    let usable = catalog.iter().filter(|(_, plugin)| plugin.package().is_ok()).count();
    let message = format!("{} of {} can be loaded", usable, count(all as u64, "plugin", "plugins"));
    let summary = match all {
        0 => UnnamedFinding::note("no plugin is installed or named").hint(plugin_dirs(&[]).shipped.how_to_install()),
        _ => UnnamedFinding::ok(message),
    };
    let unusable = catalog.iter().filter_map(|(id, plugin)| {
        let report = plugin.package().err()?.report();
        let causes = [report.message].into_iter().chain(report.causes);
        let location = plugin.location();
        Some(
            UnnamedFinding::problem(format!("`{id}` in {location} cannot be used"))
                .details(causes)
                .maybe_hint(report.hint),
        )
    });
    [summary.details(sources)].into_iter().chain(unusable).collect()
}

/// Returns the directories in which plugins are looked for: those that are named, or else the usual ones.
fn directories(config: &Config, named: &[PathBuf]) -> Vec<PathBuf> {
    let PluginDirs { named, shipped, standard, .. } = plugin_dirs(named);
    let directories = config.plugin_directories(&named);
    match directories.is_empty() {
        true => {
            let personal_dirs = config.personal_plugin_directories(&standard);
            [vec![config.root.join(".shelly/plugins")], personal_dirs, shipped.directories].concat()
        }
        false => directories,
    }
}

pub(super) fn mcp_servers(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let Ok(app) = &context.app else {
        return vec![UnnamedFinding::note("unknown: the config cannot be used")];
    };
    if app.servers().is_empty() {
        return vec![UnnamedFinding::ok("the config names no MCP server")];
    }
    let named = |why: &str| {
        let message = format!("{}, {why}", count(app.servers().len() as u64, "server", "servers"));
        vec![UnnamedFinding::note(message).details(app.servers().iter().map(place))]
    };
    if !context.starts_servers {
        return named("not connected; use --start-servers to connect");
    }
    match context.app_if_trusted() {
        Ok(app) => app.servers().iter().map(|server| context.block_on(started(app, server))).collect(),
        Err(why) => named(&format!("not connected: {why}")),
    }
}

/// Returns the name of a server, and where it is. Arguments and the path of an address may hold credentials.
fn place(server: &McpServerConfig) -> String {
    match (&server.command, server.host_name()) {
        (Some(command), _) => format!("{}: the program {command}", server.name),
        (None, Some(host)) => format!("{}: at {host}", server.name),
        (None, None) => format!("{}: at an address with variables", server.name),
    }
}

/// Connects to a server and lets go of it. The time is bounded by the `connect_timeout` of the server.
async fn started(app: &App, server: &McpServerConfig) -> UnnamedFinding {
    match app.server(&server.name).await {
        Ok(connected) => {
            let listing = connected.client.listing();
            let tools = count(listing.tools.len() as u64, "tool", "tools");
            let refused =
                listing.refused.iter().map(|refused| format!("{} is unusable: {}", refused.name, refused.why));
            let refused: Vec<_> = refused.collect();
            connected.client.close().await;
            let message = format!("{} answers with {tools}", server.name);
            match refused.is_empty() {
                true => UnnamedFinding::ok(message),
                false => UnnamedFinding::note(message).details(refused),
            }
        }
        Err(report) => UnnamedFinding::of_report(&report).details([place(server)]),
    }
}
