//! Checks that a file belongs to a person, and that nobody else can change or replace it.

use std::{fs, path::Path};

use crate::error::Report;

#[cfg(unix)]
pub(super) use unix::check_ownership;

#[cfg(unix)]
pub use unix::is_of_this_person;

/// Accepts every file: the system does not say who else can change it.
#[cfg(not(unix))]
pub(super) fn check_ownership(_file: &fs::File, _path: &Path, _home: Option<&Path>) -> Result<(), Report> {
    Ok(())
}

/// Returns `false`: the system does not say whose a file is.
#[cfg(not(unix))]
pub fn is_of_this_person(_path: &Path) -> bool {
    false
}

#[cfg(unix)]
mod unix {
    use std::{
        collections::BTreeSet,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::PathBuf,
    };

    use super::*;
    use crate::{
        error::{ErrorKind, why_unreadable},
        limits,
    };

    /// The administrator, who can change everything anyway.
    const ROOT: u32 = 0;
    /// The mode bits of writing for others than the owner.
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    /// The mode bit of writing for everybody.
    const WRITABLE_BY_ALL: u32 = 0o002;
    /// The mode bit of a folder in which only its owner can replace a file.
    const STICKY: u32 = 0o1000;

    fn this_person() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// Returns `true` if the file or folder belongs to the person who runs this process, and not everybody can write to it.
    /// A link is not followed.
    pub fn is_of_this_person(path: &Path) -> bool {
        is_of(path, this_person())
    }

    fn is_of(path: &Path, person: u32) -> bool {
        let about = fs::symlink_metadata(path);
        about.is_ok_and(|about| about.uid() == person && about.permissions().mode() & WRITABLE_BY_ALL == 0)
    }

    /// Refuses a file of the person that somebody else owns or can change, or that lies in a folder of which that is so. A
    /// link is followed, and the folder of each link on the way is examined too. Folders above `home` are not: who can
    /// change those can do anything.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file or folder, and the command that mends it.
    pub fn check_ownership(file: &fs::File, path: &Path, home: Option<&Path>) -> Result<(), Report> {
        check_owners([this_person(), ROOT], file, path, home)
    }

    /// Does the same for files of these users; the first is the person.
    fn check_owners(owners: [u32; 2], file: &fs::File, path: &Path, home: Option<&Path>) -> Result<(), Report> {
        let refused = |what: &Path, why: String, hint: String| {
            Report::new(ErrorKind::Usage, format!("cannot use the user-wide config {}", path.display()))
                .cause(format!("{} {why}", what.display()))
                .hint(hint)
        };
        let check = |what: &Path, about: &fs::Metadata| {
            let (owner, mode) = (about.uid(), about.permissions().mode());
            let shown = what.display();
            if !owners.contains(&owner) {
                let why = format!("belongs to somebody else (user {owner})");
                let hint = format!("make it yours with chown {} {shown}, or move the config", owners[0]);
                return Err(refused(what, why, hint));
            }
            if mode & WRITABLE_BY_OTHERS != 0 && !(about.is_dir() && mode & STICKY != 0) {
                let why = format!("can be changed by others (mode {:o})", mode & 0o7777);
                return Err(refused(what, why, format!("remove their write permission with chmod go-w {shown}")));
            }
            Ok(())
        };
        let unreadable = |what: &Path, error: std::io::Error| {
            refused(
                what,
                format!("cannot be examined: {}", why_unreadable(&error)),
                "check who may read it, or move the config".into(),
            )
        };
        check(path, &file.metadata().map_err(|error| unreadable(path, error))?)?;
        let home = home.and_then(|home| home.canonicalize().ok());
        for folder in folders_of(path) {
            for above in folder.ancestors() {
                check(above, &fs::metadata(above).map_err(|error| unreadable(above, error))?)?;
                if home.as_deref() == Some(above) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the real folder of a path, and of each link that it leads through.
    fn folders_of(path: &Path) -> BTreeSet<PathBuf> {
        let (mut folders, mut path) = (BTreeSet::new(), path.to_owned());
        for _ in 0..limits::CONFIG_LINKS {
            let Some(folder) = path.parent().and_then(|folder| folder.canonicalize().ok()) else { break };
            let target = fs::read_link(&path);
            folders.insert(folder.clone());
            match target {
                Ok(target) => path = folder.join(target),
                Err(_) => break,
            }
        }
        folders.extend(path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned)));
        folders
    }

    #[cfg(test)]
    mod tests {
        use std::os::unix::fs::symlink;

        use super::*;

        /// Checks a file for a person.
        fn checked(path: &Path, person: u32) -> Result<(), String> {
            // The temporary folder may be anybody's.
            let home = path.ancestors().find(|folder| folder.ends_with("home"));
            let report = check_owners([person; 2], &fs::File::open(path).unwrap(), path, home);
            report.map_err(|report| report.with_hint())
        }

        fn mode(path: &Path, mode: u32) {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }

        fn home() -> (tempfile::TempDir, PathBuf, PathBuf) {
            let outer = tempfile::tempdir().unwrap();
            let folder = outer.path().canonicalize().unwrap().join("home/.config/shelly-host");
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join("config.yaml");
            fs::write(&path, "").unwrap();
            for (made, bits) in [(&path, 0o600), (&folder, 0o700)] {
                mode(made, bits);
            }
            folder.ancestors().take(3).for_each(|folder| mode(folder, 0o755));
            (outer, folder, path)
        }

        #[test]
        fn file_that_others_can_change_is_refused() {
            let (outer, folder, path) = home();
            for bits in [0o600, 0o644, 0o444] {
                mode(&path, bits);
                assert_eq!(checked(&path, this_person()), Ok(()), "{bits:o}");
            }
            for (what, bits) in [(&path, 0o620), (&path, 0o602), (&folder, 0o770), (&folder, 0o707)] {
                let before = fs::metadata(what).unwrap().permissions().mode();
                mode(what, bits);
                let refused = checked(&path, this_person()).unwrap_err();
                let shown = what.display();
                assert!(refused.contains(&format!("{shown} can be changed by others (mode {bits:o})")), "{refused}");
                assert!(refused.contains(&format!("chmod go-w {shown}")), "{refused}");
                mode(what, before & 0o777);
            }
            // The home folder is the last one.
            mode(folder.parent().unwrap(), 0o777);
            assert!(checked(&path, this_person()).is_err());
            mode(folder.parent().unwrap(), 0o1777);
            assert_eq!(checked(&path, this_person()), Ok(()), "in such a folder nobody replaces a file of others");
            mode(outer.path(), 0o777);
            assert_eq!(checked(&path, this_person()), Ok(()));
        }

        #[test]
        fn file_of_somebody_else_is_refused() {
            let (_outer, _, path) = home();
            // A person who has made nothing here.
            let (owner, other) = (this_person(), this_person() + 1);
            let refused = checked(&path, other).unwrap_err();
            assert!(refused.contains(&format!("belongs to somebody else (user {owner})")), "{refused}");
            assert!(refused.contains(&format!("chown {other}")), "{refused}");
            assert!(is_of_this_person(&path) && !is_of(&path, other));
            mode(&path, 0o602);
            assert!(!is_of_this_person(&path));
        }

        #[test]
        fn each_folder_of_a_link_is_examined() {
            let (outer, folder, path) = home();
            let (dotfiles, open) = (outer.path().join("home/dotfiles"), outer.path().join("home/open"));
            for made in [&dotfiles, &open] {
                fs::create_dir(made).unwrap();
                mode(made, 0o755);
            }
            fs::rename(&path, dotfiles.join("real.yaml")).unwrap();
            symlink(dotfiles.join("real.yaml"), open.join("middle.yaml")).unwrap();
            symlink("../../open/middle.yaml", &path).unwrap();
            assert_eq!(checked(&path, this_person()), Ok(()));
            for exposed in [&folder, &open, &dotfiles] {
                mode(exposed, 0o777);
                let refused = checked(&path, this_person()).unwrap_err();
                let real = exposed.canonicalize().unwrap();
                assert!(refused.contains(&format!("{} can be changed by others", real.display())), "{refused}");
                mode(exposed, 0o755);
            }
        }
    }
}
