//! Searches the config of a project: in a folder, and in the folders above it that belong to the same person.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use crate::{config::is_of_this_person, project::ProjectLayout};

/// The name of a config beside its project's files; one in the folder `.shelly` has priority.
pub const BESIDE: &str = "shelly.yaml";

/// The usual paths of a config, relative to its folder, in the order in which they are looked for.
const USUAL: [&str; 2] = [".shelly/config.yaml", BESIDE];

/// The places where a config was looked for, in order.
#[derive(Debug, Default)]
pub struct ProjectSearch {
    /// The places.
    pub candidates: Vec<ConfigCandidate>,
    /// The reason for which no further folder was searched; `None` if a config was found.
    pub end: Option<String>,
}

/// A place where a config may be.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigCandidate {
    /// The path of the file.
    pub path: PathBuf,
    /// `true` if the file is in a folder above the one in which the search begins.
    pub is_above: bool,
    /// The result for this path.
    pub status: CandidateStatus,
}

/// The result of the search at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidateStatus {
    /// The config that is used.
    Used,
    /// Nothing.
    Missing,
    /// A folder, a pipe, or something else that is no file.
    NoFile,
    /// A link that leads out of its folder: somebody else may have made it, and it may point at any file.
    LinkOut,
    /// A file above that somebody else can change.
    Foreign,
    /// A file above, in the home folder: in each folder below it, agents could read everything that the person has.
    OfHome,
    /// A file, but this one comes before it.
    After(PathBuf),
}

impl fmt::Display for CandidateStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used => f.write_str("used"),
            Self::Missing => f.write_str("no such file"),
            Self::NoFile => f.write_str("it is not a file"),
            Self::LinkOut => f.write_str("it is a link out of its folder"),
            Self::Foreign => f.write_str("somebody else can change it"),
            Self::OfHome => f.write_str("it lies in your home folder, and is used in that folder alone"),
            Self::After(first) => write!(f, "{} comes first", first.display()),
        }
    }
}

impl ProjectSearch {
    /// Searches in `folder`, which is empty for the current one, and then in the folders above it: up to the root of the git
    /// repository or to the home folder, whichever is nearer. The config of the home folder is used in that folder alone.
    /// `real` is the same folder as an absolute path without links.
    pub fn of(folder: &Path, real: &Path, home: Option<&Path>) -> Self {
        let mut search = Self::default();
        if search.add(folder, false) {
            return search;
        }
        let home = home.and_then(|home| home.canonicalize().ok());
        let is_last = |at: &Path| home.as_deref() == Some(at) || fs::symlink_metadata(at.join(".git")).is_ok();
        let Some(last) = real.ancestors().find(|at| is_last(at)) else {
            search.end = Some("this folder is neither in a git repository nor in your home folder".into());
            return search;
        };
        for (at, above) in real.ancestors().zip(real.ancestors().skip(1)) {
            let shown = at.display();
            search.end = if at == last {
                let what =
                    if home.as_deref() == Some(at) { "your home folder" } else { "the root of a git repository" };
                Some(format!("{shown} is {what}"))
            } else if ProjectLayout::new(at).holds_more_than_sessions() {
                Some(format!("{shown} has a folder .shelly of its own"))
            } else if !is_own(above, home.as_deref()) {
                Some(format!("{} is not a folder of yours alone", above.display()))
            } else {
                None
            };
            if search.end.is_some() || search.add(above, true) {
                break;
            }
        }
        search.leave_out_home(home.as_deref());
        search
    }

    /// Does not use a config that was found above, in the home folder.
    fn leave_out_home(&mut self, home: Option<&Path>) {
        let Some(home) = home else { return };
        let is_of_home = |path: &Path| USUAL.iter().any(|usual| path == home.join(usual));
        let found = self.candidates.iter_mut().filter(|found| found.is_above && is_of_home(&found.path));
        for found in found.filter(|found| matches!(found.status, CandidateStatus::Used | CandidateStatus::After(_))) {
            found.status = CandidateStatus::OfHome;
            self.end = Some(format!("{} is your home folder", home.display()));
        }
    }

    /// Returns the config that is used.
    pub fn used(&self) -> Option<&ConfigCandidate> {
        self.candidates.iter().find(|candidate| candidate.status == CandidateStatus::Used)
    }

    /// Adds the places in a folder. Returns `true` if a config was found.
    fn add(&mut self, folder: &Path, is_above: bool) -> bool {
        let mut first: Option<PathBuf> = None;
        for path in USUAL.map(|usual| folder.join(usual)) {
            let mut status = status_of(&path, folder, is_above);
            if status == CandidateStatus::Used {
                match &first {
                    Some(first) => status = CandidateStatus::After(first.clone()),
                    None => first = Some(path.clone()),
                }
            }
            self.candidates.push(ConfigCandidate { path, is_above, status });
        }
        first.is_some()
    }
}

/// Returns what is found at a path; `Used` if it is a config that may be used.
fn status_of(path: &Path, folder: &Path, is_above: bool) -> CandidateStatus {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match fs::metadata(path) {
        Ok(about) if about.is_file() => {}
        Ok(_) => return CandidateStatus::NoFile,
        // A link to nothing is a link all the same.
        Err(_) if fs::symlink_metadata(path).is_ok() => return CandidateStatus::NoFile,
        Err(_) => return CandidateStatus::Missing,
    }
    let (Ok(real), Ok(real_folder)) = (path.canonicalize(), folder.canonicalize()) else {
        return CandidateStatus::NoFile;
    };
    if !real.starts_with(&real_folder) {
        return CandidateStatus::LinkOut;
    }
    // In the folder itself somebody else's config is asked about, as everything there is.
    let mut within = real.ancestors().take_while(|at| *at != real_folder);
    match is_above && !within.all(|at| is_own(at, Some(&real_folder))) {
        true => CandidateStatus::Foreign,
        false => CandidateStatus::Used,
    }
}

/// Returns `true` if a file or folder is this person's. Where the system does not say whose a file is, what is below `own` is.
fn is_own(path: &Path, own: Option<&Path>) -> bool {
    is_of_this_person(path) || cfg!(not(unix)) && own.is_some_and(|own| path.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home folder with a repository and folders below it.
    struct Home {
        _outer: tempfile::TempDir,
        path: PathBuf,
    }

    impl Home {
        fn new() -> Self {
            let outer = tempfile::tempdir().unwrap();
            let path = outer.path().canonicalize().unwrap().join("me");
            fs::create_dir_all(path.join("project/sub/deep")).unwrap();
            Self { _outer: outer, path }
        }

        fn file(&self, name: &str) -> PathBuf {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        }

        fn search(&self, folder: &str) -> ProjectSearch {
            let folder = self.path.join(folder);
            ProjectSearch::of(&folder, &folder, Some(&self.path))
        }

        fn used(&self, folder: &str) -> Option<PathBuf> {
            self.search(folder).used().map(|found| found.path.clone())
        }
    }

    #[test]
    fn config_is_found_above_up_to_the_repository_or_below_home() {
        let home = Home::new();
        let outside = home.file("../shelly.yaml");
        assert_eq!(home.used("project/sub/deep"), None, "above the home folder is nobody's project");
        assert_eq!(home.used(".."), Some(outside), "in the folder itself it is");
        let of_home = home.file("shelly.yaml");
        let statuses = |folder: &str| {
            home.search(folder).candidates.into_iter().map(|one| (one.path, one.status)).collect::<Vec<_>>()
        };
        assert_eq!(home.used("project/sub/deep"), None, "agents of every project could read all of the home folder");
        assert!(statuses("project/sub/deep").contains(&(of_home.clone(), CandidateStatus::OfHome)));
        assert!(home.search("project").end.unwrap().ends_with("/me is your home folder"));
        assert_eq!(home.used(""), Some(of_home), "in the folder itself it is used");
        assert!(!home.search("").used().unwrap().is_above);
        let project = home.file("project/.shelly/config.yaml");
        assert_eq!(home.used("project/sub/deep"), Some(project.clone()));
        assert!(home.search("project/sub").used().unwrap().is_above);
        fs::remove_file(&project).unwrap();
        fs::create_dir(home.path.join("project/.git")).unwrap();
        assert_eq!(home.used("project/sub/deep"), None, "not beyond the repository");
        let end = home.search("project/sub/deep").end.unwrap();
        assert!(end.ends_with("/project is the root of a git repository"), "{end}");
        let beside = home.file("project/shelly.yaml");
        assert_eq!(home.used("project/sub/deep"), Some(beside));
        // A repository outside of the home folder.
        let folder = home.path.join("project/sub");
        assert!(ProjectSearch::of(&folder, &folder, None).used().is_some());
        fs::remove_dir(home.path.join("project/.git")).unwrap();
        let search = ProjectSearch::of(&folder, &folder, None);
        assert!(search.used().is_none() && search.end.unwrap().contains("neither in a git repository"));
    }

    #[test]
    fn folder_with_files_for_agents_is_a_project_of_its_own() {
        let home = Home::new();
        home.file("project/shelly.yaml");
        home.file("project/sub/.shelly/local/sessions/x/journal.jsonl");
        assert!(home.used("project/sub/deep").is_some(), "sessions alone make no project");
        home.file("project/sub/.shelly/context.md");
        let search = home.search("project/sub/deep");
        assert!(search.used().is_none() && search.end.unwrap().contains("/sub has a folder .shelly of its own"));
    }

    #[test]
    fn each_place_says_what_is_there() {
        let home = Home::new();
        let beside = home.file("project/shelly.yaml");
        let first = home.path.join("project/.shelly/config.yaml");
        let status = |folder: &str| -> Vec<_> {
            home.search(folder).candidates.into_iter().map(|candidate| (candidate.path, candidate.status)).collect()
        };
        let missing = |folder: &str| USUAL.map(|usual| (home.path.join(folder).join(usual), CandidateStatus::Missing));
        let found = [(first.clone(), CandidateStatus::Missing), (beside.clone(), CandidateStatus::Used)];
        assert_eq!(status("project/sub"), [missing("project/sub"), found].concat());
        fs::create_dir_all(&first).unwrap();
        assert_eq!(status("project")[0].1, CandidateStatus::NoFile, "a folder");
        assert_eq!(home.used("project"), Some(beside.clone()));
        fs::remove_dir(&first).unwrap();
        fs::write(&first, "").unwrap();
        assert_eq!(status("project")[1].1, CandidateStatus::After(first));
    }

    #[cfg(unix)]
    #[test]
    fn links_out_and_files_of_others_above_are_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let home = Home::new();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let outside = home.file("../elsewhere.yaml");
        let beside = home.path.join("project/shelly.yaml");
        symlink(&outside, &beside).unwrap();
        for folder in ["project", "project/sub"] {
            let statuses: Vec<_> = home.search(folder).candidates.into_iter().map(|found| found.status).collect();
            assert!(statuses.contains(&CandidateStatus::LinkOut), "{folder}: {statuses:?}");
            assert_eq!(home.used(folder), None);
        }
        fs::remove_file(&beside).unwrap();
        // A folder that is a link.
        fs::create_dir_all(home.path.join("../.elsewhere")).unwrap();
        home.file("../.elsewhere/config.yaml");
        symlink(home.path.join("../.elsewhere"), home.path.join("project/.shelly")).unwrap();
        assert_eq!((home.used("project"), home.used("project/sub")), (None, None));
        fs::remove_file(home.path.join("project/.shelly")).unwrap();
        // Within its folder it may be a link.
        home.file("project/real.yaml");
        symlink("real.yaml", &beside).unwrap();
        assert_eq!(home.used("project/sub"), Some(beside.clone()));
        for exposed in ["project/real.yaml", "project"] {
            let (exposed, before) = (home.path.join(exposed), if exposed == "project" { 0o755 } else { 0o644 });
            mode(&exposed, before | 0o002);
            assert_eq!(home.used("project/sub"), None, "everybody can write to {}", exposed.display());
            assert_eq!(home.used("project"), Some(beside.clone()), "there it is asked about");
            mode(&exposed, before);
        }
        assert!(home.used("project/sub").is_some());
    }
}
