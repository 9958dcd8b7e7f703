use std::path::{Path, PathBuf};

use super::Environment;
use crate::{
    config::Config,
    process::{AllowedProgram, AllowedPrograms, ExecContext, ProcessSlots, ProgramFindError, ProgramFinder},
};

/// Builds the allowed programs of a config, to be run in its project.
pub(crate) fn allowed_programs(config: &Config, environment: &Environment, slots: ProcessSlots) -> AllowedPrograms {
    let inherited = |name: &str| Some((name.to_owned(), environment(name)?));
    let ground = ExecContext {
        finder: finder(environment),
        root: config.root.clone(),
        environment: ExecContext::INHERITED.into_iter().filter_map(inherited).collect(),
        slots,
    };
    let entries = config.programs.iter().map(|(name, program)| {
        let own = program.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let inherited = program.inherit_env.iter().filter(|name| !program.env.contains_key(*name));
        let entry = AllowedProgram {
            command: program.command.clone().unwrap_or_else(|| name.clone()),
            args: program.patterns(),
            folder: program.cwd.as_ref().map_or_else(|| config.root.clone(), |cwd| config.root.join(cwd)),
            environment: inherited.filter_map(|name| Some((name.clone(), environment(name)?))).chain(own).collect(),
            time: program.timeout,
        };
        (name.clone(), entry)
    });
    AllowedPrograms::new(ground, entries.collect::<Vec<_>>())
}

/// Returns the file of a program in the folders of `PATH`.
///
/// # Errors
///
/// [`ProgramFindError`] if no folder has it.
pub fn find_program(environment: &Environment, name: &str) -> Result<PathBuf, ProgramFindError> {
    finder(environment).find(name, Path::new("/"))
}

fn finder(environment: &Environment) -> ProgramFinder {
    ProgramFinder::new(&environment("PATH").unwrap_or_default())
}
