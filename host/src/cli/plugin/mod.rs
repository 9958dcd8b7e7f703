//! The commands for plugins and for those who write them.

mod build;
mod call;
mod cancelled_work;
mod certify;
mod check;
mod complete;
mod dev;
mod doctor;
mod given_text;
mod inspect;
mod list;
mod named_plugin;
mod new;
pub(in crate::cli) mod packages;
mod plugin_lookup_args;
mod source_watch;
mod step;
mod test;
mod test_results;
mod trial_args;
mod trial_display;
mod wit;

use std::path::PathBuf;

use clap::Subcommand;

use self::{
    build::PluginBuildArgs,
    call::PluginCallArgs,
    certify::certify,
    check::PluginCheckArgs,
    complete::PluginCompleteArgs,
    dev::PluginDevArgs,
    doctor::doctor,
    inspect::inspect,
    list::list,
    new::PluginNewArgs,
    packages::{
        PluginInstallArgs, PluginPublishArgs, PluginRemoveArgs, PluginSearchArgs, PluginUpdateArgs, PluginVendorArgs,
        list_outdated,
    },
    step::PluginStepArgs,
    test::PluginTestArgs,
    wit::PluginWitArgs,
};
pub use self::{
    build::{InstalledBuild, ReadProject, build_into_place, show_tool_line},
    named_plugin::catalog_of,
    source_watch::SourceWatch,
};
use super::render::{self, CliOutputFormat};

/// A subcommand of `shelly-host plugin`.
#[derive(Subcommand)]
pub enum PluginCommand {
    /// List the plugins of the config's `plugin_dirs` and of --plugins, or the installed ones if neither is given.
    ///
    /// Those that a lock file names are always listed.
    ///
    /// Unusable plugins are listed too, with the reason on standard error and exit code 3.
    List {
        /// The config file (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// List only the installed plugins of which their sources have another version.
        #[arg(long, conflicts_with = "plugins")]
        outdated: bool,
        /// The output format.
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
        output: CliOutputFormat,
    },
    /// Show a plugin's manifest, its imports, the capabilities that it asks for, and its tools.
    ///
    /// Starts the plugin once in its sandbox, without any grant, to list its tools.
    Inspect {
        /// A plugin's folder, a component file, or the id of a listed plugin.
        plugin: PathBuf,
        /// The config in which the id is looked up (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders in which the id is looked up; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// The output format.
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
        output: CliOutputFormat,
    },
    Check(PluginCheckArgs),
    New(PluginNewArgs),
    Build(PluginBuildArgs),
    Dev(PluginDevArgs),
    Wit(PluginWitArgs),
    /// Show for each language in which plugins are written if its toolchain is here, and how to install it.
    ///
    /// Looks in the .venv and the node_modules of the current folder, and on PATH. Starts the programs to ask for their versions.
    Doctor,
    /// Print what a plugin can reach for an agent, as JSON.
    ///
    /// Links the plugin to its grants in the config and instantiates it; as before a run, you are asked first to trust what the
    /// files of the project name. Each import has a state. `satisfied`: linked to what `grant` says. `refused`: not linked.
    /// `powerless`: gives access to nothing, because the plugin uses only its types, or because it belongs to the base
    /// interfaces of WASI that plugin.toml declares. `capability` is what the config must grant for the import; an import
    /// without it comes with the plugin's kind. Exit code 3: the plugin does not run, and the certificate says why.
    Certify {
        /// The plugin's id.
        id: String,
        /// The agent (default: the entry agent of the config, or the first agent that has the plugin; without agents in a config
        /// the one that runs then).
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Certify the plugin as the model of this name.
        #[arg(long, value_name = "NAME", conflicts_with = "agent")]
        model: Option<String>,
        /// The config file (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
        #[arg(long)]
        trust: bool,
    },
    Call(PluginCallArgs),
    Step(PluginStepArgs),
    Complete(PluginCompleteArgs),
    Test(PluginTestArgs),
    Install(PluginInstallArgs),
    Remove(PluginRemoveArgs),
    Update(PluginUpdateArgs),
    Search(PluginSearchArgs),
    Vendor(PluginVendorArgs),
    Publish(PluginPublishArgs),
}

impl PluginCommand {
    pub fn execute(self) -> u8 {
        let (result, output) = match self {
            Self::List { config, outdated: true, output, .. } => (list_outdated(config.as_ref(), output), output),
            Self::List { config, plugins, output, .. } => (list(config.as_ref(), &plugins, output), output),
            Self::Inspect { plugin, config, plugins, output } => {
                (inspect(&plugin, config.as_ref(), &plugins, output), output)
            }
            Self::Check(check) => (check.execute(), check.output),
            Self::New(args) => (args.write(), CliOutputFormat::Text),
            Self::Build(args) => (args.build(), CliOutputFormat::Text),
            Self::Dev(dev) => (dev.execute(), dev.output),
            Self::Wit(args) => (args.show(), CliOutputFormat::Text),
            Self::Doctor => (doctor(), CliOutputFormat::Text),
            Self::Certify { id, agent, model, config, plugins, trust } => {
                let whose = (agent.as_deref(), model.as_deref());
                (certify(&id, whose, config.as_ref(), &plugins, trust), CliOutputFormat::Json)
            }
            Self::Call(call) => (call.execute(), call.with.output),
            Self::Step(step) => (step.execute(), step.with.output),
            Self::Complete(complete) => (complete.execute(), complete.with.output),
            Self::Test(test) => (test.execute(), test.output.into()),
            Self::Install(args) => (args.install(), CliOutputFormat::Text),
            Self::Remove(args) => (args.remove(), CliOutputFormat::Text),
            Self::Update(args) => (args.update(), CliOutputFormat::Text),
            Self::Search(args) => (args.search(), args.output),
            Self::Vendor(args) => (args.vendor(), CliOutputFormat::Text),
            Self::Publish(args) => (args.publish(), CliOutputFormat::Text),
        };
        result.unwrap_or_else(|report| render::failed(&report, output.into()))
    }
}
