//! The templates of projects.

use std::collections::BTreeSet;

use crate::app::key_variables_in_words;

/// A template of a project.
pub struct ProjectTemplate {
    pub name: &'static str,
    pub about: &'static str,
    /// The command to try first.
    pub first_command: &'static str,
    /// Files by their path below `.shelly`, with `/` between folders.
    files: &'static [(&'static str, &'static str)],
}

/// The parts that several templates share, by the marks in whose place they are put.
const PARTS: [(&str, &str); 3] = [
    ("#{head}\n", include_str!("parts/head.yaml")),
    ("#{models}\n", include_str!("parts/models.yaml")),
    ("#{settings}\n", include_str!("parts/settings.yaml")),
];

const CONTEXT: (&str, &str) = ("context.md", include_str!("parts/context.md"));
const REVIEW: (&str, &str) = ("skills/review/SKILL.md", include_str!("parts/review.md"));

const FIRST_RUN: &str = "shelly-host run \"What is this project?\"";

macro_rules! of_template {
    ($name:literal, $path:literal) => {
        ($path, include_str!(concat!("templates/", $name, "/", $path)))
    };
}

/// The templates; the first is the default.
pub static TEMPLATES: [ProjectTemplate; 6] = [
    ProjectTemplate {
        name: "assistant",
        about: "one assistant that knows the project, and works on it with your consent",
        first_command: FIRST_RUN,
        files: &[
            of_template!("assistant", "config.yaml"),
            CONTEXT,
            of_template!("assistant", "skills/describe-project/SKILL.md"),
        ],
    },
    ProjectTemplate {
        name: "coder",
        about: "a programmer that makes small changes, with their tests",
        first_command: FIRST_RUN,
        files: &[of_template!("coder", "config.yaml"), CONTEXT, of_template!("coder", "skills/change/SKILL.md")],
    },
    ProjectTemplate {
        name: "team",
        about: "a planner, a coder and a reviewer that work on one task, one after the other",
        first_command: FIRST_RUN,
        files: &[
            of_template!("team", "config.yaml"),
            CONTEXT,
            of_template!("team", "skills/planning/SKILL.md"),
            REVIEW,
        ],
    },
    ProjectTemplate {
        name: "reviewer",
        about: "a reviewer that judges changes and changes nothing",
        first_command: FIRST_RUN,
        files: &[of_template!("reviewer", "config.yaml"), CONTEXT, REVIEW],
    },
    ProjectTemplate {
        name: "researcher",
        about: "a researcher that reads the web and the project, and names its sources",
        first_command: FIRST_RUN,
        files: &[
            of_template!("researcher", "config.yaml"),
            CONTEXT,
            of_template!("researcher", "skills/research/SKILL.md"),
        ],
    },
    ProjectTemplate {
        name: "project-indexer",
        about: "an agent that renews what the others are told of the project: shelly-host index",
        first_command: "shelly-host index",
        files: &[
            of_template!("project-indexer", "config.yaml"),
            CONTEXT,
            of_template!("project-indexer", "skills/index-project/SKILL.md"),
        ],
    },
];

impl ProjectTemplate {
    /// Returns the template of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TEMPLATES.iter().find(|template| template.name == name)
    }

    /// Returns the paths below `.shelly` that every template writes.
    pub fn common_paths() -> impl Iterator<Item = &'static str> {
        let is_in_all = |path: &&str| TEMPLATES.iter().all(|one| one.files.iter().any(|(other, _)| other == path));
        TEMPLATES[0].files.iter().map(|(path, _)| *path).filter(is_in_all)
    }

    /// Returns the files of the other templates that this one does not have, with their texts.
    pub fn files_of_others(&self) -> impl Iterator<Item = (&'static str, String)> {
        let is_own = |path: &str| self.files.iter().any(|(own, _)| *own == path);
        let mut seen = BTreeSet::new();
        TEMPLATES.iter().flat_map(Self::files).filter(move |(path, _)| !is_own(path) && seen.insert(*path))
    }

    /// Returns the files with their texts, by their path below `.shelly`.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, String)> {
        let keys = key_variables_in_words("or");
        self.files.iter().map(move |(path, text)| {
            let whole = PARTS.iter().fold((*text).to_owned(), |text, (mark, part)| text.replace(mark, part));
            (*path, whole.replace("{keys}", &keys))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{app::key_variables, config::Config};

    #[test]
    fn each_file_of_the_templates_is_used() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/init");
        let (mut found, mut folders) = (BTreeSet::new(), vec![root.join("templates"), root.join("parts")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(found.insert(fs::read_to_string(path).unwrap())),
                }
            }
        }
        let used = TEMPLATES.iter().flat_map(|template| template.files).map(|(_, text)| (*text).to_owned());
        let used: BTreeSet<_> = used.chain(PARTS.iter().map(|(_, part)| (*part).to_owned())).collect();
        assert_eq!(found, used);
    }

    #[test]
    fn each_template_names_all_keys_and_is_valid() {
        for template in &TEMPLATES {
            let (_, config) = template.files().find(|(path, _)| *path == "config.yaml").unwrap();
            assert!(key_variables().all(|key| config.contains(key)), "{}", template.name);
            assert!(!config.contains("#{") && !config.contains("{keys}"), "{config}");
            let parsed = Config::parse(&config, "/project".into()).unwrap_or_else(|report| panic!("{report}"));
            assert!(parsed.entry_agent.is_some() && parsed.providers.is_empty(), "{}", template.name);
            assert!(parsed.agents.iter().all(|agent| agent.toolboxes.len() > 1), "{}: it has hands", template.name);
            assert!(config.lines().all(|line| line.chars().count() <= 125), "{config}");
        }
    }
}
