//! Skills from several places.

use std::path::{Path, PathBuf};

use super::{
    skill_error::SkillError,
    skill_file::{FILE, Skill, SkillPlace, skill_folders},
};
use crate::{
    files::{self, FileReadError},
    limits,
};

/// The skills of a project and of a person. Of two with the same name, the one that was added first is used.
#[derive(Debug, Default)]
pub struct SkillCatalog {
    skills: Vec<Skill>,
    left_out: Vec<SkillError>,
    /// The folders that were added, without links.
    folders: Vec<PathBuf>,
}

impl SkillCatalog {
    /// Creates the catalog with the project's own skills.
    pub fn new(own: Vec<Skill>) -> Self {
        Self { skills: own, ..Self::default() }
    }

    /// Adds the skills of a folder that other programs read too. A skill that does not follow the Agent Skills format, or
    /// whose name is taken, is left out. The folder itself must not be a link out of `inside`. A folder that was added
    /// before is skipped, and a missing one has no skills.
    pub fn add_shared(&mut self, dir: &Path, place: SkillPlace, inside: Option<&Path>) {
        let real = files::resolved(dir);
        if self.folders.contains(&real) {
            return;
        }
        let folders = match skill_folders(dir) {
            Ok(folders) => folders,
            Err(error) => return self.left_out.push(error),
        };
        if folders.is_empty() {
            return;
        }
        if let Some(inside) = inside.filter(|inside| !real.starts_with(files::resolved(inside))) {
            let reason = FileReadError::Outside(inside.into()).to_string();
            return self.left_out.push(SkillError::Unreadable { path: dir.into(), reason });
        }
        self.folders.push(real);
        for folder in folders {
            match Skill::load_inside(&folder, dir, place) {
                Ok(skill) => self.add(skill),
                Err(error) => self.left_out.push(error),
            }
        }
    }

    fn add(&mut self, skill: Skill) {
        let (path, name) = (skill.dir.join(FILE), skill.name.to_lowercase());
        let by = self.skills.iter().find(|known| known.name.to_lowercase() == name).map(|known| known.dir.join(FILE));
        match by {
            Some(by) => self.left_out.push(SkillError::Outranked { path, by }),
            None if self.skills.len() == limits::SKILLS => self.left_out.push(SkillError::TooManyTogether { path }),
            None => self.skills.push(skill),
        }
    }

    /// Returns the skills, sorted by name, and the reasons for which others are left out.
    pub fn into_parts(mut self) -> (Vec<Skill>, Vec<SkillError>) {
        self.skills.sort_by(|a, b| a.name.cmp(&b.name));
        (self.skills, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(dir: &Path, name: &str) {
        fs::create_dir_all(dir.join(name)).unwrap();
        fs::write(dir.join(name).join(FILE), format!("---\nname: {name}\ndescription: d\n---\n")).unwrap();
    }

    fn own(name: &str) -> Skill {
        Skill { name: name.into(), dir: "/own".into(), ..Skill::default() }
    }

    #[test]
    fn earlier_place_of_a_skill_has_precedence() {
        let root = tempfile::tempdir().unwrap();
        let [shared, personal] = ["shared", "personal"].map(|name| root.path().join(name));
        for name in ["a", "b"] {
            write(&shared, name);
        }
        for name in ["b", "c"] {
            write(&personal, name);
        }
        write(&personal, "Bad");
        let mut catalog = SkillCatalog::new(vec![own("A"), own("z")]);
        catalog.add_shared(&shared, SkillPlace::Shared, Some(root.path()));
        catalog.add_shared(&personal, SkillPlace::Personal, None);
        // A home folder that is the project has one folder of skills.
        catalog.add_shared(&personal.join("../shared"), SkillPlace::Personal, None);
        catalog.add_shared(&root.path().join("none"), SkillPlace::Personal, None);
        let (skills, left_out) = catalog.into_parts();
        let places: Vec<_> = skills.iter().map(|skill| (&*skill.name, skill.place)).collect();
        let expected =
            [("A", SkillPlace::Own), ("b", SkillPlace::Shared), ("c", SkillPlace::Personal), ("z", SkillPlace::Own)];
        assert_eq!(places, expected);
        let reasons: Vec<_> = left_out.iter().map(|error| error.report().with_hint()).collect();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(
            reasons[0].contains("shared/a/SKILL.md is not used, since /own/SKILL.md has the same name"),
            "{reasons:?}"
        );
        assert!(reasons[1].contains("personal/Bad/SKILL.md does not follow the Agent Skills format"), "{reasons:?}");
        assert!(reasons[2].contains("personal/b/SKILL.md is not used, since"), "{reasons:?}");
    }

    #[test]
    fn skills_of_all_places_are_bounded_together() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "one");
        write(root.path(), "two");
        let names = (1..limits::SKILLS).map(|number| own(&format!("own-{number}")));
        let mut catalog = SkillCatalog::new(names.collect());
        catalog.add_shared(root.path(), SkillPlace::Shared, None);
        let (skills, left_out) = catalog.into_parts();
        assert_eq!(skills.len(), limits::SKILLS);
        assert!(matches!(&left_out[..], [SkillError::TooManyTogether { path }] if path.ends_with("two/SKILL.md")));
    }

    #[test]
    #[cfg(unix)]
    fn folder_of_skills_must_not_lead_out_of_the_project() {
        let outer = tempfile::tempdir().unwrap();
        let project = outer.path().join("project");
        fs::create_dir(&project).unwrap();
        write(&outer.path().join("elsewhere"), "evil");
        std::os::unix::fs::symlink("../elsewhere", project.join("skills")).unwrap();
        let mut catalog = SkillCatalog::default();
        catalog.add_shared(&project.join("skills"), SkillPlace::Shared, Some(&project));
        let (skills, left_out) = catalog.into_parts();
        assert!(skills.is_empty() && left_out.len() == 1);
        assert!(left_out[0].report().to_string().contains("the link leads out of"), "{}", left_out[0].report());
    }
}
