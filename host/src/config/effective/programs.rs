//! The effective settings of programs.

use indexmap::IndexMap;

use super::super::{
    Config, ProgramConfig,
    effective_setting::{EffectiveSetting, is, map, or, shown},
    mask::masked,
};

pub(super) fn program(name: &str, program: &ProgramConfig, config: &Config) -> EffectiveSetting {
    let ProgramConfig { command, args, cwd, env, inherit_env, timeout } = program;
    let env: IndexMap<_, _> = env.iter().map(|(name, value)| (name, masked(value))).collect();
    map([
        ("command", or(command.as_deref(), name, "its name")),
        ("args", is(args)),
        ("cwd", cwd.as_ref().map_or_else(|| is(&config.root).noted("the root"), |cwd| is(&config.root.join(cwd)))),
        ("env", is(&env)),
        ("inherit_env", is(inherit_env)),
        ("timeout", is(&shown(*timeout))),
    ])
}
