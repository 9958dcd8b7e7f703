//! The command line: one file a subcommand. Only here: the terminal, the environment, the process.

mod plugin;
mod render;
mod run;

use std::{
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{Parser, Subcommand, error::ErrorKind as ClapKind};

use crate::{
    app::Environment,
    config::Config,
    error::{ErrorKind, Report},
};

/// Runs LLM agents whose tools, effects, middleware and models are sandboxed WebAssembly components.
#[derive(Parser)]
#[command(name = "shelly-host", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    /// Look at plugins.
    #[command(subcommand)]
    Plugin(plugin::Plugin),
}

const EXIT_CODES: &str = "\
Exit codes: 0 an answer, 1 the run failed, 2 wrong usage or config, 3 a plugin could not be loaded, \
4 the model could not be asked, 70 a bug of ours, 130 cancelled with Ctrl-C.";

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    log_to_stderr();
    // What is contained says so itself; what is not comes out below.
    panic::set_hook(Box::new(|info| tracing::error!("{info}")));
    let code = panic::catch_unwind(AssertUnwindSafe(|| match Cli::try_parse() {
        Ok(cli) => execute(cli.command),
        Err(error) => {
            let _ = error.print();
            match error.kind() {
                ClapKind::DisplayHelp | ClapKind::DisplayVersion => 0,
                _ => ErrorKind::Usage.exit_code(),
            }
        }
    }));
    ExitCode::from(code.unwrap_or_else(|panic| render::failed(&bug(&*panic), render::Output::Text)))
}

fn execute(command: Command) -> u8 {
    match command {
        Command::Run(run) => run.execute(),
        Command::Plugin(plugin) => plugin.execute(),
    }
}

fn bug(panic: &(dyn std::any::Any + Send)) -> Report {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Report::new(ErrorKind::Bug, "this is a bug in shelly-host")
        .cause(text.unwrap_or("it panicked"))
        .hint("please report it, with the command and the config if you can")
}

/// Our own log, off unless `SHELLY_LOG` asks for it.
fn log_to_stderr() {
    let filter = std::env::var("SHELLY_LOG").unwrap_or_else(|_| "off".into());
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .without_time()
        .init();
}

fn environment() -> Environment {
    Arc::new(|name| std::env::var(name).ok())
}

/// The config that is named, or that is found in its usual places; an empty one otherwise.
fn config(named: Option<&PathBuf>) -> Result<Config, Report> {
    if let Some(path) = named {
        return Config::read(path);
    }
    let found = [".shelly/config.yaml", "shelly.yaml"].into_iter().map(PathBuf::from).find(|path| path.is_file());
    found.map_or_else(|| Ok(Config::default()), |path| Config::read(&path))
}

/// Where compiled code is kept between runs.
fn cache_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("SHELLY_CACHE_DIR").or_else(|| {
        let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        caches.map(|caches| caches.join("shelly-host"))
    });
    base.map(|base| base.join("components"))
}
