use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use clap_mangen::Man;

use super::render::{self, RunOutputFormat, name, print};
use crate::error::{ErrorKind, Report, without_number};

/// Write the manual pages, one for each command.
///
/// man looks beside the folders of your PATH: with ~/.local/bin on the PATH it finds pages in ~/.local/share/man/man1.
/// Without DIR the place for this program is printed, and nothing is written. Existing pages are replaced; other files in the
/// folder stay unchanged.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host man
  shelly-host man ~/.local/share/man/man1
  shelly-host man /tmp/manual && man -l /tmp/manual/shelly-host-run.1")]
pub struct ManArgs {
    /// The folder for the pages; created if missing.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// A page of the manual.
struct ManualPage {
    file: String,
    text: Vec<u8>,
}

impl ManArgs {
    /// Writes the pages of `program`. Returns the exit code.
    pub fn execute(self, program: Command) -> u8 {
        let summary = match &self.dir {
            Some(dir) => write_pages(program, dir),
            None => Ok(place_in_words(std::env::current_exe().ok(), std::env::var_os("PATH").as_deref())),
        };
        let printed = summary.and_then(|summary| print(&summary));
        printed.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }
}

/// Writes the pages of `program` to a folder, and returns a summary.
fn write_pages(program: Command, dir: &Path) -> Result<String, Report> {
    let pages = pages(program).map_err(|error| Report::new(ErrorKind::Bug, "cannot format the manual").cause(error))?;
    fs::create_dir_all(dir).map_err(not_written(dir))?;
    for page in &pages {
        let path = dir.join(&page.file);
        fs::write(&path, &page.text).map_err(not_written(&path))?;
    }
    Ok(format!("wrote {} pages to {}", pages.len(), name(&dir.display().to_string())))
}

/// Says where `man` finds the pages of the program at this path.
fn place_in_words(program: Option<PathBuf>, path: Option<&OsStr>) -> String {
    let folder = program.as_deref().and_then(Path::parent);
    let on_path = |folder: &&Path| path.is_some_and(|path| std::env::split_paths(path).any(|one| one == **folder));
    let is_bin = |folder: &&Path| folder.file_name().is_some_and(|name| name == "bin");
    match folder.filter(on_path).filter(is_bin).and_then(Path::parent) {
        Some(above) => {
            let (bin, pages) = (above.join("bin"), above.join("share/man/man1"));
            let (bin, pages) = (name(&bin.display().to_string()), name(&pages.display().to_string()));
            format!("man finds pages of programs in {bin} in {pages}\nwrite them with: shelly-host man {pages}")
        }
        None => {
            let folder = folder.map_or(String::new(), |folder| format!(" {}", name(&folder.display().to_string())));
            format!(
                "man finds pages beside the folders bin of your PATH, and the folder{folder} of this program is none of \
                 them\nwrite them with: shelly-host man DIR; read one with: man -l DIR/shelly-host-run.1"
            )
        }
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

    #[test]
    fn place_for_pages_is_beside_the_folder_of_the_path() {
        let place =
            |program: &str| place_in_words(Some(program.into()), Some(OsStr::new("/usr/bin:/home/me/.cargo/bin")));
        let found = place("/home/me/.cargo/bin/shelly-host");
        assert!(found.ends_with("write them with: shelly-host man /home/me/.cargo/share/man/man1"), "{found}");
        for elsewhere in ["/work/target/debug/shelly-host", "/opt/bin/shelly-host"] {
            let found = place(elsewhere);
            assert!(found.contains("is none of them") && found.contains("man -l DIR"), "{found}");
        }
        assert!(place_in_words(None, None).contains("the folder of this program is none of them"));
    }

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
