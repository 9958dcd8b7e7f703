//! The skills of a project and of a person, as they are listed and checked.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use super::project_folder::skills_of;
use crate::{
    config::Config,
    error::Report,
    project::ProjectLayout,
    skill::{self, Skill, SkillCatalog, SkillDetails, SkillError, SkillPlace},
};

/// The skills that agents can have, and those that are left out.
#[derive(Debug, Default)]
pub struct SkillListing {
    /// The skills, sorted by name.
    pub skills: Vec<ListedSkill>,
    /// The skills that cannot be used, with what to change.
    pub problems: Vec<Report>,
    /// The skills in whose place another one of the same name is used.
    pub outranked: Vec<Report>,
}

/// A skill as people are shown it.
#[derive(Debug, Serialize)]
pub struct ListedSkill {
    /// The name.
    pub name: String,
    /// The situation in which to use it; empty if it is always in the prompt.
    pub description: String,
    /// The place from which it comes: `project`, `shared` or `personal`.
    pub place: &'static str,
    /// The folder; below the project's root if it lies there.
    pub folder: String,
    /// The licence.
    pub license: Option<String>,
    /// The requirements.
    pub compatibility: Option<String>,
    /// The tools for which it is written.
    pub allowed_tools: Vec<String>,
    /// Further properties.
    pub metadata: BTreeMap<String, String>,
}

impl SkillListing {
    /// Lists the skills of a project and of the person. Nothing of them runs.
    pub fn of(config: &Config) -> Self {
        let layout = ProjectLayout::new(&config.root);
        let (found, problem) = match skills_of(config, &layout, layout.holds_more_than_sessions()) {
            Ok(found) => (found, None),
            // Those of the other places are listed all the same.
            Err(problem) => (skills_of(config, &layout, false).unwrap_or_default(), Some(problem)),
        };
        let mut listing = Self::new(found, layout.root());
        listing.problems.extend(problem);
        listing
    }

    /// Checks a skill, or a folder of skills, against the Agent Skills format.
    pub fn of_folder(folder: &Path) -> Self {
        let found = match folder.join(skill::FILE).symlink_metadata() {
            Ok(_) => match Skill::load_shared(folder) {
                Ok(skill) => (vec![skill], Vec::new()),
                Err(error) => (Vec::new(), vec![error]),
            },
            Err(_) => {
                let mut catalog = SkillCatalog::default();
                catalog.add_shared(folder, SkillPlace::Shared, None);
                catalog.into_parts()
            }
        };
        Self::new(found, Path::new("."))
    }

    fn new((skills, left_out): (Vec<Skill>, Vec<SkillError>), root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let skills = skills.into_iter().map(|skill| ListedSkill::new(skill, &root)).collect();
        let (outranked, problems): (Vec<_>, Vec<_>) =
            left_out.iter().partition(|error| matches!(error, SkillError::Outranked { .. }));
        let reports = |errors: Vec<&SkillError>| errors.into_iter().map(SkillError::report).collect();
        Self { skills, problems: reports(problems), outranked: reports(outranked) }
    }
}

impl ListedSkill {
    fn new(skill: Skill, root: &Path) -> Self {
        let Skill { name, description, content: _, dir, details, place } = skill;
        let SkillDetails { license, compatibility, metadata, allowed_tools } = details;
        let folder = dir.strip_prefix(root).unwrap_or(&dir).display().to_string();
        let place = match place {
            SkillPlace::Own => "project",
            SkillPlace::Shared => "shared",
            SkillPlace::Personal => "personal",
        };
        Self { name, description, place, folder, license, compatibility, allowed_tools, metadata }
    }
}
