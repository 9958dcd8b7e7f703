use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
};

use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind as ClapKind},
};

use super::{
    acp, agent, batch,
    build_info::LONG_VERSION,
    chat, cluster, completions, config, conformance, doctor,
    host_environment::compile_here,
    index, init, man, mcp, openapi,
    panic_report::bug,
    plugin, provider,
    render::{self, RunOutputFormat},
    run, serve, session, signals, skill, trace, trigger, usage_hints,
    wanted_output::wanted_output,
};
use crate::{
    error::{ErrorKind, Report},
    plugin::CompileWorker,
};

/// Runs LLM agents whose tools, effects, middleware and models are sandboxed WebAssembly components.
#[derive(Parser)]
#[command(name = "shelly-host", bin_name = "shelly-host", version, long_version = LONG_VERSION.as_str(), arg_required_else_help = true, after_help = AFTER_HELP)]
pub(super) struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
pub(super) enum CliCommand {
    Run(run::RunArgs),
    Chat(chat::ChatArgs),
    Batch(batch::BatchArgs),
    Init(init::InitArgs),
    Index(index::IndexArgs),
    /// Check a config, print its JSON Schema, or trust the project.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// List, show, resume, copy and remove sessions.
    #[command(subcommand)]
    Session(session::SessionCommand),
    Trace(trace::TraceArgs),
    /// List plugins, inspect or try one, or certify what it can reach.
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Install, list, update, remove and publish agents of somebody else.
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// List the skills that agents can have, and check them.
    #[command(subcommand)]
    Skill(skill::SkillCommand),
    /// Check that models answer.
    #[command(subcommand)]
    Provider(provider::ProviderCommand),
    Serve(serve::ServeArgs),
    /// Fire a trigger of the config by hand.
    #[command(subcommand)]
    Trigger(trigger::TriggerCommand),
    Submit(cluster::SubmitArgs),
    Worker(cluster::WorkerArgs),
    Attach(cluster::AttachArgs),
    /// Show the workers and the runs of the cluster that the config names, cancel runs, and remove old ones.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    Mcp(mcp::McpArgs),
    Acp(acp::AcpArgs),
    /// List the APIs of the config, and approve their operations.
    #[command(subcommand)]
    Openapi(openapi::OpenApiCommand),
    Conformance(conformance::ConformanceArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

const AFTER_HELP: &str = "\
Examples:
  shelly-host init
  shelly-host config check
  shelly-host provider check
  shelly-host run \"How many words are in README.md?\"
  shelly-host plugin list --plugins plugins

Exit codes:
    0  success
    1  the run failed, or its answer could not be written to standard output; batch: tasks
       failed or did not begin; index --check: the index is out of date; doctor: there is a
       problem; plugin call, step, complete: the plugin has returned an error; plugin test: a
       case failed; plugin check: there is a problem; conformance: an attack did not end as
       expected; session: a part is damaged, or a change cannot be undone; trace --diff: the
       runs differ; skill check: a skill cannot be used
    2  wrong usage, config or task, or a project or a session that is not trusted
    3  a required plugin cannot be used; plugin call, step, complete: the plugin cannot be
       loaded, crashed, timed out or exceeded a limit
    4  the model did not answer
   70  a bug in shelly-host
  130  cancelled with Ctrl-C; 143: by SIGTERM; 129: because the terminal was closed";

/// Runs the command of the process like [`main`], but compiles components in this process. A tool that counts instructions
/// needs this: a child process that is not counted sees another CPU, and would compile for that one.
#[doc(hidden)]
pub fn main_that_compiles_here() -> ExitCode {
    compile_here();
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
    if let Some(code) = completions::answer_shell(command) {
        return code;
    }
    signals::watch();
    log_to_stderr();
    // A contained panic is reported where it is contained; any other is reported below.
    panic::set_hook(Box::new(|info| tracing::error!("{info}")));
    let code = panic::catch_unwind(AssertUnwindSafe(|| match std::env::args_os().len() {
        1 => chat::open_without_arguments().unwrap_or_else(without_terminal),
        _ => parse_and_execute(),
    }));
    let failed =
        |panic: Box<dyn Any + Send>| render::failed(&bug(&*panic), wanted_output().unwrap_or(RunOutputFormat::Text));
    ExitCode::from(code.unwrap_or_else(failed))
}

/// Says what `shelly-host` without arguments does. Returns the exit code.
fn without_terminal() -> u8 {
    let report = Report::new(ErrorKind::Usage, "without arguments a chat opens, which needs a terminal");
    let report = report.hint("give a task: shelly-host run \"…\"; all commands: shelly-host --help");
    render::failed(&report, RunOutputFormat::Text)
}

/// Parses the command line and executes its command. Returns the exit code.
fn parse_and_execute() -> u8 {
    match Cli::try_parse() {
        Ok(cli) => execute(cli.command),
        Err(mut error) => {
            let is_error = !matches!(error.kind(), ClapKind::DisplayHelp | ClapKind::DisplayVersion);
            if is_error {
                let words: Vec<_> = std::env::args_os().skip(1).collect();
                usage_hints::add_hints(&mut error, command(), &words);
                if let Some(output) = wanted_output() {
                    render::begin_stream(None, output);
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
    }
}

fn wrong_usage(error: &clap::Error) -> Report {
    let text = error.to_string();
    let what = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let tip = match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips.first().map(ToString::to_string),
        _ => None,
    };
    Report::new(ErrorKind::Usage, what).hint(tip.unwrap_or_else(|| "see shelly-host --help".to_owned()))
}

fn execute(command: CliCommand) -> u8 {
    match command {
        CliCommand::Run(run) => run.execute(),
        CliCommand::Chat(chat) => chat.execute(),
        CliCommand::Batch(batch) => batch.execute(),
        CliCommand::Init(init) => init.execute(),
        CliCommand::Index(index) => index.execute(),
        CliCommand::Config(config) => config.execute(),
        CliCommand::Session(session) => session.execute(),
        CliCommand::Trace(trace) => {
            trace.execute().unwrap_or_else(|report| render::failed(&report, RunOutputFormat::Text))
        }
        CliCommand::Plugin(plugin) => plugin.execute(),
        CliCommand::Agent(agent) => agent.execute(),
        CliCommand::Skill(skill) => skill.execute(),
        CliCommand::Provider(provider) => provider.execute(),
        CliCommand::Serve(serve) => serve.execute(),
        CliCommand::Trigger(trigger) => trigger.execute(),
        CliCommand::Submit(submit) => submit.execute(),
        CliCommand::Worker(worker) => worker.execute(),
        CliCommand::Attach(attach) => attach.execute(),
        CliCommand::Cluster(cluster) => cluster.execute(),
        CliCommand::Mcp(mcp) => mcp.execute(),
        CliCommand::Acp(acp) => acp.execute(),
        CliCommand::Openapi(openapi) => openapi.execute(),
        CliCommand::Conformance(conformance) => conformance.execute(),
        CliCommand::Doctor(doctor) => doctor.execute(),
        CliCommand::Completions(completions) => completions.execute(),
        CliCommand::Man(man) => man.execute(Cli::command()),
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
