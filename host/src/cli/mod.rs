//! The command line, with one file for each subcommand. Only this module uses the terminal, the environment and the
//! process.

mod ask;
mod config;
mod conformance;
mod index;
mod init;
mod input;
mod launch;
mod mcp;
mod mcp_fixture;
mod plugin;
mod provider;
mod render;
mod run;
mod secrets;
mod session;
mod session_target;
mod signals;
mod silent_models;
mod stdout;
#[cfg(test)]
mod tests;
mod trust;

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind as ClapKind},
};
use render::RunOutputFormat;

use crate::{
    app::Environment,
    config::Config,
    error::{ErrorKind, Report},
    plugin::{CompileConfig, CompileSite, CompileWorker, INSTALLED, PluginDirs},
};

/// Runs LLM agents whose tools, effects, middleware and models are sandboxed WebAssembly components.
#[derive(Parser)]
#[command(name = "shelly-host", bin_name = "shelly-host", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    Run(run::RunArgs),
    Init(init::InitArgs),
    Index(index::IndexArgs),
    /// Check a config, and see what holds.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// See what was said and done before, and go on with it.
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// List plugins, or look into one.
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// See whether models can be asked.
    #[command(subcommand)]
    Provider(provider::ProviderCommand),
    Mcp(mcp::McpArgs),
    Conformance(conformance::ConformanceArgs),
    /// Play the client of an MCP server for those who test it.
    #[command(subcommand, hide = true)]
    McpFixture(mcp_fixture::McpFixtureCommand),
}

const AFTER_HELP: &str = "\
Examples:
  shelly-host init
  shelly-host config check
  shelly-host provider check
  shelly-host run \"How many words are in README.md?\"
  shelly-host plugin list --plugins plugins

Exit codes:
    0  an answer
    1  the run failed, or index --check says that it is due
    2  wrong usage, config or task, or a project that you do not trust yet
    3  a plugin that is needed cannot be used
    4  the model could not be asked
   70  a bug of ours
  130  cancelled with Ctrl-C; 143 with SIGTERM, 129 because the terminal went away";

/// Runs the command of the process like [`main`], but compiles components in this process. A tool that counts instructions
/// needs this: a child process that is not counted sees another CPU, and would compile for that one.
#[doc(hidden)]
pub fn main_that_compiles_here() -> ExitCode {
    COMPILES_HERE.store(true, Ordering::Relaxed);
    main()
}

/// Returns the parser of the command line, from which the page of commands is written.
#[doc(hidden)]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command with which the process was called.
pub fn main() -> ExitCode {
    // The worker must start before everything else: it needs a single thread, and people do not call it.
    if let Some(worker) = CompileWorker::from_args(std::env::args_os().skip(1)) {
        return match worker.run(&mut std::io::stdin(), &mut std::io::stdout(), || std::process::exit(1)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    signals::watch();
    log_to_stderr();
    // A contained panic is reported where it is contained; any other is reported below.
    panic::set_hook(Box::new(|info| tracing::error!("{info}")));
    let code = panic::catch_unwind(AssertUnwindSafe(|| match Cli::try_parse() {
        Ok(cli) => execute(cli.command),
        Err(mut error) => {
            let is_error = !matches!(error.kind(), ClapKind::DisplayHelp | ClapKind::DisplayVersion);
            if is_error {
                suggest_quotes(&mut error);
                if wanted_output().is_some() {
                    render::failed_as_json(&wrong_usage(&error));
                }
            }
            match error.print() {
                Err(cause) if !is_error && cause.kind() != std::io::ErrorKind::BrokenPipe => {
                    render::failed(&render::not_printed(cause), RunOutputFormat::Text)
                }
                _ if is_error => ErrorKind::Usage.exit_code(),
                _ => 0,
            }
        }
    }));
    let failed =
        |panic: Box<dyn Any + Send>| render::failed(&bug(&*panic), wanted_output().unwrap_or(RunOutputFormat::Text));
    ExitCode::from(code.unwrap_or_else(failed))
}

/// Returns the machine-readable format that the command line asks for, as far as a wrong command line tells.
fn wanted_output() -> Option<RunOutputFormat> {
    let arguments: Vec<_> = std::env::args_os().skip(1).take_while(|argument| argument != "--").collect();
    let value = |at: usize| match arguments[at].to_str()?.strip_prefix("--output")? {
        "" => arguments.get(at + 1)?.to_str(),
        rest => rest.strip_prefix('='),
    };
    (0..arguments.len()).rev().find_map(value).and_then(|value| match value {
        "json" => Some(RunOutputFormat::Json),
        "events" => Some(RunOutputFormat::Events),
        _ => None,
    })
}

/// Suggests quotes for a second word after a task, which is usually the rest of the task.
fn suggest_quotes(error: &mut clap::Error) {
    let is_run = std::env::args_os().nth(1).is_some_and(|argument| argument == "run");
    if let (ClapKind::UnknownArgument, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
        && is_run
        && !word.starts_with('-')
    {
        let tip = "put the task in quotes: shelly-host run \"…\"";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

fn wrong_usage(error: &clap::Error) -> Report {
    let text = error.to_string();
    let what = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    Report::new(ErrorKind::Usage, what).hint("see shelly-host --help")
}

fn execute(command: CliCommand) -> u8 {
    match command {
        CliCommand::Run(run) => run.execute(),
        CliCommand::Init(init) => init.execute(),
        CliCommand::Index(index) => index.execute(),
        CliCommand::Config(config) => config.execute(),
        CliCommand::Session(session) => session.execute(),
        CliCommand::Plugin(plugin) => plugin.execute(),
        CliCommand::Provider(provider) => provider.execute(),
        CliCommand::Mcp(mcp) => mcp.execute(),
        CliCommand::Conformance(conformance) => conformance.execute(),
        CliCommand::McpFixture(fixture) => fixture.execute(),
    }
}

fn bug(panic: &(dyn Any + Send)) -> Report {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Report::new(ErrorKind::Bug, "this is a bug in shelly-host")
        .cause(text.unwrap_or("it panicked"))
        .hint("please report it, with the command and the config if you can")
}

/// The runtime for commands that wait for single operations.
struct CommandRuntime(tokio::runtime::Runtime);

fn runtime() -> Result<CommandRuntime, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map(CommandRuntime).map_err(|error| Report::new(ErrorKind::Bug, "cannot start").cause(error))
}

impl CommandRuntime {
    /// Waits for `work`. A signal drops it, and with it the programs that it has started, and ends the process.
    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let interrupt = signals::ended();
        let done = self.0.block_on(async {
            tokio::select! {
                biased;
                code = interrupt => Err(code),
                done = work => Ok(done),
            }
        });
        done.unwrap_or_else(|code| signals::exit(code))
    }
}

/// Sets up the log, which is off unless `SHELLY_LOG` enables it. The middleware `logger` always logs.
fn log_to_stderr() {
    let filter = std::env::var("SHELLY_LOG").unwrap_or_else(|_| format!("off,{}=info", crate::agent::LOGGER_TARGET));
    let filter = tracing_subscriber::EnvFilter::new(filter);
    let no_codes = format!("{}=warn", crate::mcp::LOG_OF_CODES).parse();
    let filter = no_codes.map_or(filter.clone(), |no_codes| filter.add_directive(no_codes));
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).without_time().init();
}

fn environment() -> Environment {
    Arc::new(|name| std::env::var(name).ok())
}

/// Reads the config that is named, or that is found in a usual place; otherwise returns an empty one.
fn config(named: Option<&PathBuf>) -> Result<Config, Report> {
    config_path(named.cloned()).map_or_else(|| Ok(Config::default()), |path| Config::read(&path))
}

/// The name of a config beside its project's files; one in the folder `.shelly` has priority.
const BESIDE: &str = "shelly.yaml";

/// Returns the path of the config that is named, or that is found in a usual place.
fn config_path(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        // The user did not name the config, and it may lie in another person's project, so its path is shown.
        let found = usual(Path::new("")).inspect(|path| render::tell(&format!("config {}\n", path.display())));
        if found.is_none()
            && let Some(link) = USUAL.into_iter().map(Path::new).find(|path| path.is_file())
        {
            render::tell(&format!(
                "the config {link} is a link out of this folder and was not used: --config {link}\n",
                link = link.display()
            ));
        } else if found.is_none()
            && let Some(above) = above()
        {
            let above = render::name(&above.display().to_string());
            render::tell(&format!("the config {above} is not of this folder and was not used: --config {above}\n"));
        }
        found
    })
}

/// The usual paths of a config, relative to its folder.
const USUAL: [&str; 2] = [".shelly/config.yaml", BESIDE];

/// Returns the config of a folder. A link that leads out of the folder is skipped: another person may have made it, and it
/// may point at any file that this user can read.
fn usual(folder: &Path) -> Option<PathBuf> {
    let is_inside = |path: &PathBuf| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (real, folder) = (path.canonicalize(), folder.canonicalize());
        path.is_file() && real.is_ok_and(|real| folder.is_ok_and(|folder| real.starts_with(folder)))
    };
    USUAL.map(|path| folder.join(path)).into_iter().find(is_inside)
}

/// Returns the config of the nearest ancestor of the current directory that has one.
fn above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let around = here.ancestors().skip(1).scan(PathBuf::new(), |path, _| {
        path.push("..");
        Some(path.clone())
    });
    around.into_iter().find_map(|folder| usual(&folder))
}

/// Returns the directories of plugins: those of the command line, of the user's own data, and beside the program.
fn plugin_dirs(named: &[PathBuf]) -> PluginDirs {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    let data = data.filter(|data| data.is_absolute()).map(|data| data.join("shelly-host/plugins"));
    let shipped = std::env::current_exe().and_then(|program| program.canonicalize()).map_or_else(
        |_| Vec::new(),
        |program| {
            let folder = program.parent().unwrap_or(Path::new("/"));
            let mut shipped = vec![folder.join("plugins"), folder.join("..").join(INSTALLED)];
            // In a cargo build the plugins lie one level up.
            if folder.ends_with("debug") || folder.ends_with("release") {
                shipped.push(folder.join("../plugins"));
            }
            shipped
        },
    );
    let standard = data.into_iter().chain(shipped.iter().cloned()).collect();
    PluginDirs { named: named.to_vec(), standard, shipped, offers_standard: named.is_empty() }
}

/// Set if this process compiles components itself.
static COMPILES_HERE: AtomicBool = AtomicBool::new(false);

/// Returns the compiler settings: each component is compiled in a process of its own, and the code is cached between runs.
fn compiling() -> CompileConfig {
    let site = match COMPILES_HERE.load(Ordering::Relaxed) {
        true => CompileSite::InProcess,
        false => CompileSite::OwnProgram,
    };
    CompileConfig { cache: cache_directory(), site, ..CompileConfig::default() }
}

/// Returns the cache directory of compiled code.
fn cache_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("SHELLY_CACHE_DIR").or_else(|| {
        let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        caches.map(|caches| caches.join("shelly-host"))
    });
    base.map(|base| base.join("components"))
}
