//! Programs that agents and plugins may run.

use indexmap::IndexMap;

use super::{
    section::SectionDescription,
    wording::{SHOWN_PARAMS_BYTES, digest_of},
};
use crate::{
    config::{
        Config, ProgramConfig,
        effective_setting::{is, or, shown},
        mask::masked,
    },
    files,
    process::shown_words,
    trust::{RiskLevel, quoted, quoted_path},
};

pub(super) fn program_section(name: &str, program: &ProgramConfig, config: &Config) -> SectionDescription {
    let ProgramConfig { command, args, cwd, env, inherit_env, timeout } = program;
    let mut section = SectionDescription::default();
    let who = format!("the program {}", quoted(name));
    let folder = cwd.as_ref().map_or_else(|| config.root.clone(), |cwd| config.root.join(cwd));
    section.show("command", or(command.as_deref(), name, "the name of the entry"));
    section.show("args", is(args));
    section.show("cwd", is(&folder).noted_if(cwd.is_none(), "the root"));
    section.disclose(RiskLevel::Runs, {
        let command = shown_words([command.as_deref().unwrap_or(name)]);
        let args: Vec<_> = program.patterns().iter().map(ToString::to_string).collect();
        // The list may be long and a line must not be: a digest stands for what is not shown.
        let (args, digest) = (args.join(" or "), digest_of(&args.join("\n")));
        let args = if args.len() <= SHOWN_PARAMS_BYTES { quoted(&args) } else { format!("(sha256:{digest})") };
        format!(
            "{who} is {}, run outside the sandbox in {}, with the arguments {args}",
            quoted(&command),
            quoted_path(&files::resolved(&folder))
        )
    });
    let masked_env: IndexMap<_, _> = env.iter().map(|(name, value)| (name, masked(value))).collect();
    section.show("env", is(&masked_env));
    for (variable, value) in env {
        // A program may act on its environment in any way.
        let line = format!("{who} has {} in its environment (sha256:{})", quoted(variable), digest_of(value));
        section.disclose(RiskLevel::Runs, line);
    }
    section.show("inherit_env", is(inherit_env));
    for variable in inherit_env {
        section.disclose(RiskLevel::Sends, format!("{who} gets the environment variable {}", quoted(variable)));
    }
    // A time limit, below the fixed limit of the host.
    section.show("timeout", is(&shown(*timeout)));
    section
}
