//! The subcommand `skill`: lists and checks the skills that agents can have.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    config_path::read_config_silently,
    render::{self, CliOutputFormat, json_line, name, one_line, path_name, print, print_for_people, warn},
};
use crate::{
    app::{ListedSkill, SkillListing},
    error::{ErrorKind, Report},
};

/// Commands for skills.
#[derive(Subcommand)]
pub enum SkillCommand {
    List(SkillListArgs),
    Check(SkillCheckArgs),
}

/// List the skills of the project and your own, with the place of each.
///
/// They are read from .shelly/skills and .agents/skills of the project, and from .agents/skills in your home folder. Of two
/// with the same name, the one in the earlier place is used. Skills of installed agents are not listed. Nothing runs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host skill list
  shelly-host skill list --output json")]
pub struct SkillListArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

/// Check the skills of the project and your own, or skills in other folders, and say what is wrong with them.
///
/// Skills in .agents/skills, and in folders that you name, must follow the Agent Skills format of agentskills.io. Exit code
/// 1: a skill cannot be used. Another skill of the same name in an earlier place is no mistake.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host skill check
  shelly-host skill check downloads/pdf-forms")]
pub struct SkillCheckArgs {
    /// Folders that are skills or contain them (default: the places from which agents get theirs).
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

impl SkillCommand {
    pub fn execute(self) -> u8 {
        match self {
            Self::List(list) => list.list().map_or_else(|report| render::failed(&report, list.output.into()), |()| 0),
            Self::Check(check) => check.check().unwrap_or_else(|report| render::failed(&report, check.output.into())),
        }
    }
}

impl SkillListArgs {
    fn list(&self) -> Result<(), Report> {
        let listing = SkillListing::of(&read_config_silently(self.config.as_ref())?);
        match self.output {
            CliOutputFormat::Json => print_json(&listing),
            CliOutputFormat::Text => {
                listing.problems.iter().chain(&listing.outranked).for_each(|report| warn(&report.with_hint()));
                match listing.skills.is_empty() {
                    true => {
                        print("no skills; a folder .shelly/skills/NAME or .agents/skills/NAME with a SKILL.md is one")
                    }
                    false => print_for_people(&listing.skills.iter().map(shown).collect::<Vec<_>>().join("\n")),
                }
            }
        }
    }
}

impl SkillCheckArgs {
    fn check(&self) -> Result<u8, Report> {
        let mut listing = SkillListing::default();
        if self.folders.is_empty() {
            listing = SkillListing::of(&read_config_silently(self.config.as_ref())?);
        }
        for folder in &self.folders {
            let SkillListing { skills, problems, outranked } = SkillListing::of_folder(folder);
            if skills.is_empty() && problems.is_empty() {
                let message = format!("{} has no skills", path_name(folder));
                return Err(
                    Report::new(ErrorKind::Usage, message).hint("name a folder with a SKILL.md, or one around it")
                );
            }
            listing.skills.extend(skills);
            listing.problems.extend(problems);
            listing.outranked.extend(outranked);
        }
        match self.output {
            CliOutputFormat::Json => print_json(&listing)?,
            CliOutputFormat::Text => {
                let sound = listing.skills.iter().map(|skill| format!("ok       {}", name(&skill.name)));
                let line = |word: &'static str| {
                    move |report: &Report| format!("{word} {}", one_line(&report.with_hint(), 1_000))
                };
                let outranked = listing.outranked.iter().map(line("not used"));
                let problems = listing.problems.iter().map(line("problem "));
                let lines: Vec<_> = sound.chain(outranked).chain(problems).collect();
                let text = if lines.is_empty() { "no skills".to_owned() } else { lines.join("\n") };
                print(&text)?;
            }
        }
        Ok(u8::from(!listing.problems.is_empty()))
    }
}

fn print_json(listing: &SkillListing) -> Result<(), Report> {
    let words = |reports: &[Report]| reports.iter().map(Report::with_hint).collect::<Vec<_>>();
    let SkillListing { skills, problems, outranked } = listing;
    print(&json_line(&json!({"skills": skills, "problems": words(problems), "not_used": words(outranked)})))
}

/// Formats a skill for people: its name and folder, and below them what it says about itself.
fn shown(skill: &ListedSkill) -> String {
    let ListedSkill { name: called, description, place, folder, license, compatibility, allowed_tools, .. } = skill;
    let mut lines = vec![format!("{}  {place}, {}", name(called), name(folder))];
    lines.push(match description.is_empty() {
        true => "  always in the prompt".to_owned(),
        false => format!("  {}", one_line(description, 2_000)),
    });
    let notes = [("needs", compatibility), ("licence", license)];
    lines.extend(notes.into_iter().filter_map(|(word, text)| Some(format!("  {word}: {}", name(text.as_deref()?)))));
    if !allowed_tools.is_empty() {
        lines.push(format!(
            "  written for the tools, which this does not grant: {}",
            one_line(&allowed_tools.join(", "), 2_000)
        ));
    }
    lines.join("\n")
}
