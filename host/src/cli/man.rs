use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use clap_mangen::Man;

use super::render::{self, RunOutputFormat, name, print};
use crate::error::{ErrorKind, Report, without_number};

/// Write the manual pages, one for each command.
///
/// Existing pages are replaced; other files in the folder stay unchanged.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host man ~/.local/share/man/man1
  shelly-host man /tmp/manual && man -l /tmp/manual/shelly-host-run.1")]
pub struct ManArgs {
    /// The folder for the pages; created if missing.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// A page of the manual.
struct ManualPage {
    file: String,
    text: Vec<u8>,
}

impl ManArgs {
    /// Writes the pages of `program`. Returns the exit code.
    pub fn execute(self, program: Command) -> u8 {
        let printed = self.write(program).and_then(|summary| print(&summary));
        printed.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    /// Writes the pages, and returns a summary.
    fn write(&self, program: Command) -> Result<String, Report> {
        let pages =
            pages(program).map_err(|error| Report::new(ErrorKind::Bug, "cannot format the manual").cause(error))?;
        fs::create_dir_all(&self.dir).map_err(not_written(&self.dir))?;
        for page in &pages {
            let path = self.dir.join(&page.file);
            fs::write(&path, &page.text).map_err(not_written(&path))?;
        }
        Ok(format!("wrote {} pages to {}", pages.len(), name(&self.dir.display().to_string())))
    }
}

/// Reports that a page or the folder cannot be written.
fn not_written(path: &Path) -> impl Fn(io::Error) -> Report {
    move |error| {
        Report::new(ErrorKind::Usage, format!("cannot write {}", name(&path.display().to_string())))
            .cause(without_number(&error.to_string()))
            .hint("name another folder, or check its permissions")
    }
}

/// Returns the page of the program and those of all commands below it.
fn pages(program: Command) -> io::Result<Vec<ManualPage>> {
    let mut program = program.disable_help_subcommand(true);
    // Gives the commands below the names of their pages.
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, pages: &mut Vec<ManualPage>) -> io::Result<()> {
    let page = Man::new(command.clone()).manual("shelly-host manual");
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push(ManualPage { file: page.get_filename(), text });
    let is_shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    command.get_subcommands().filter(is_shown).try_for_each(|below| add_pages(below, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(command: &Command) -> usize {
        1 + command.get_subcommands().map(count).sum::<usize>()
    }

    #[test]
    fn every_command_has_one_page_under_its_own_name() {
        let program = crate::cli::command();
        let pages = pages(program.clone()).unwrap();
        assert_eq!(pages.len(), count(&program));
        let mut files: Vec<_> = pages.iter().map(|page| &*page.file).collect();
        assert!(
            ["shelly-host.1", "shelly-host-run.1", "shelly-host-session-list.1"]
                .iter()
                .all(|name| files.contains(name))
        );
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), pages.len(), "each has a file of its own");
        for page in &pages {
            let text = String::from_utf8(page.text.clone()).unwrap();
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{}: {text}", page.file);
        }
    }
}
