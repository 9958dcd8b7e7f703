//! `shelly-host plugin wit`.

use std::path::{Path, PathBuf};

use clap::{Args, builder::PossibleValuesParser};
use shelly_author::{contract_files, contract_world, contract_world_names, whole_contract};

use crate::{
    cli::render::{name, print},
    error::{ErrorKind, Report, without_number},
    files,
};

/// Print the contract between host and plugins in WIT, or one of its worlds with what it needs.
///
/// With --out it is written into a folder: the contract in its four files, as wit/deps/shelly-plugin of a project has it, or
/// the world in one file of its name.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin wit --world tool-plugin
  shelly-host plugin wit --out wit/deps/shelly-plugin")]
pub struct PluginWitArgs {
    /// The world.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(contract_world_names()))]
    world: Option<String>,
    /// The folder to write to; created if missing. A file that is there and differs is not replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl PluginWitArgs {
    /// Prints or writes the contract.
    pub(super) fn show(&self) -> Result<u8, Report> {
        let files: Vec<(String, String)> = match &self.world {
            Some(world) => vec![(format!("{world}.wit"), contract_world(world).unwrap_or_default())],
            None => contract_files().map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
        };
        let Some(folder) = &self.out else {
            let text = match files.as_slice() {
                [(_, text)] => text.clone(),
                _ => whole_contract(),
            };
            print(&text)?;
            return Ok(0);
        };
        write(folder, &files)?;
        let lines: Vec<_> = files.iter().map(|(file, _)| format!("wrote     {}", shown(&folder.join(file)))).collect();
        print(&lines.join("\n"))?;
        Ok(0)
    }
}

/// Writes files into a folder, all or none. A file that is there with the same text stays.
fn write(folder: &Path, texts: &[(String, String)]) -> Result<(), Report> {
    let others = texts.iter().map(|(file, text)| (folder.join(file), text)).filter(|(path, text)| {
        // A link that leads nowhere is in the way, too.
        path.symlink_metadata().is_ok() && !std::fs::read_to_string(path).is_ok_and(|there| there == **text)
    });
    let others: Vec<_> = others.map(|(path, _)| shown(&path)).collect();
    if !others.is_empty() {
        let report = Report::new(ErrorKind::Usage, "there are files that this would replace; nothing was written");
        let report = others.iter().fold(report, |report, path| report.cause(path));
        return Err(report.hint("move these files away, or name another folder with --out"));
    }
    let failed = |path: &Path, error: std::io::Error| {
        Report::new(ErrorKind::Usage, format!("cannot write {}", shown(path)))
            .cause(without_number(&error.to_string()))
            .hint("name a folder that can be written to with --out")
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (file, text) in texts {
        let path = folder.join(file);
        files::replace(&path, text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    name(&path.display().to_string())
}
