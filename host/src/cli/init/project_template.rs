//! The templates of projects.

use crate::app::key_variables_in_words;

/// A template of a project.
pub struct ProjectTemplate {
    pub name: &'static str,
    pub about: &'static str,
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
        files: &[
            of_template!("assistant", "config.yaml"),
            CONTEXT,
            of_template!("assistant", "skills/describe-project/SKILL.md"),
        ],
    },
    ProjectTemplate {
        name: "coder",
        about: "a programmer that makes small changes, with their tests",
        files: &[of_template!("coder", "config.yaml"), CONTEXT, of_template!("coder", "skills/change/SKILL.md")],
    },
    ProjectTemplate {
        name: "team",
        about: "a planner, a coder and a reviewer that work on one task, one after the other",
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
        files: &[of_template!("reviewer", "config.yaml"), CONTEXT, REVIEW],
    },
    ProjectTemplate {
        name: "researcher",
        about: "a researcher that reads the web and the project, and names its sources",
        files: &[
            of_template!("researcher", "config.yaml"),
            CONTEXT,
            of_template!("researcher", "skills/research/SKILL.md"),
        ],
    },
    ProjectTemplate {
        name: "project-indexer",
        about: "an agent that renews what the others are told of the project: shelly-host index",
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
    use std::{collections::BTreeSet, fs, path::Path};

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
