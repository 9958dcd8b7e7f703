//! Suites of attacks: the built-in one, and those in folders.

use std::{ffi::OsString, fs, io, path::Path};

use super::{
    attack::{Attack, AttackSource, BUILT, FILE as ATTACK},
    embedded,
};
use crate::{
    error::{ErrorKind, Report, why_unreadable},
    limits,
    plugin::{PluginKind, read_bounded},
};

/// Attacks, by name.
#[derive(Debug, Clone)]
pub struct AttackSuite {
    attacks: Vec<Attack>,
}

const TEXT: &str = "component.wat";
const FIELDS: &str = "guest.wat";
const HINT: &str = "a suite is a folder of folders, each with an attack.toml and a component.wasm, component.wat or \
                    guest.wat; shelly-host conformance --export DIR writes one as an example";

impl AttackSuite {
    /// Returns the built-in attacks. Their components are built when they are needed.
    ///
    /// # Errors
    ///
    /// A [`Report`], if one of them cannot be parsed: a bug.
    pub fn embedded() -> Result<Self, Report> {
        let attack = |&(name, file, source, is_fields): &(&str, &str, &str, bool)| {
            let source =
                if is_fields { AttackSource::Fields(source.into()) } else { AttackSource::Text(source.into()) };
            Attack::parse(name, file, source)
                .map_err(|cause| Report::new(ErrorKind::Bug, format!("the attack `{name}` is damaged")).cause(cause))
        };
        let attacks = embedded::ATTACKS.iter().map(attack).collect::<Result<_, _>>()?;
        Ok(Self { attacks })
    }

    /// Reads the attacks in a folder: each is a folder, whose name is the attack's. Other files are ignored.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the attack that cannot be read, and the reason.
    pub fn read(folder: &Path) -> Result<Self, Report> {
        let usage = |message: String| Report::new(ErrorKind::Usage, message).hint(HINT);
        let unreadable = |error: io::Error| {
            usage(format!("cannot read the suite {}", folder.display())).cause(why_unreadable(&error))
        };
        let unusable = |name: &OsString, cause: String| {
            usage(format!("cannot read the attack {}", folder.join(name).display())).cause(cause)
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            if entry.path().is_dir() {
                names.push(entry.file_name());
            }
            if names.len() > limits::CONFORMANCE_ATTACKS {
                let most = limits::CONFORMANCE_ATTACKS;
                return Err(usage(format!("{} has more than {most} attacks", folder.display())));
            }
        }
        names.sort();
        let (mut attacks, mut bytes) = (Vec::new(), 0);
        for name in names {
            let attack = read(&folder.join(&name), &name.to_string_lossy()).map_err(|cause| unusable(&name, cause))?;
            bytes += attack.component().map_err(|cause| unusable(&name, cause))?.len() as u64;
            if bytes > limits::CONFORMANCE_SUITE_BYTES {
                let most = limits::CONFORMANCE_SUITE_BYTES;
                return Err(usage(format!("the components of {} have more than {most} bytes", folder.display())));
            }
            attacks.push(attack);
        }
        if attacks.is_empty() {
            return Err(usage(format!("there is no attack in {}", folder.display())));
        }
        Ok(Self { attacks })
    }

    /// Keeps the attacks of these kinds; all, if `kinds` is empty.
    pub fn of_kinds(mut self, kinds: &[PluginKind]) -> Self {
        self.attacks.retain(|attack| kinds.is_empty() || kinds.contains(&attack.kind));
        self
    }

    /// Returns the attacks.
    pub fn attacks(&self) -> &[Attack] {
        &self.attacks
    }

    /// Writes the attacks, with their components built, into a new folder. [`AttackSuite::read`] reads it, and so can any
    /// other host.
    ///
    /// # Errors
    ///
    /// A [`Report`], if `folder` exists or cannot be written.
    pub fn export(&self, folder: &Path) -> Result<(), Report> {
        let failed = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => "no permission to write there".into(),
                io::ErrorKind::AlreadyExists => "the path already exists".into(),
                io::ErrorKind::NotFound => "the parent folder does not exist".into(),
                _ => why_unreadable(&error),
            };
            Report::new(ErrorKind::Usage, format!("cannot write the suite to {}", folder.display()))
                .cause(why)
                .hint("name a new folder in a folder that you may write to")
        };
        fs::create_dir(folder).map_err(failed)?;
        for attack in &self.attacks {
            attack.export(&folder.join(&attack.name)).map_err(failed)?;
        }
        Ok(())
    }
}

/// Reads one attack from its folder.
pub(super) fn read(folder: &Path, name: &str) -> Result<Attack, String> {
    let bytes = |file: &str, most| {
        read_bounded(&folder.join(file), most).map_err(|error| {
            let report = error.report();
            std::iter::once(report.message).chain(report.causes).collect::<Vec<_>>().join(": ")
        })
    };
    let text = |file: &str, most| String::from_utf8(bytes(file, most)?).map_err(|_| format!("{file}: not UTF-8"));
    let file = text(ATTACK, limits::CONFORMANCE_FILE_BYTES)?;
    let there: Vec<_> = [BUILT, TEXT, FIELDS].into_iter().filter(|file| folder.join(file).exists()).collect();
    let source = match there[..] {
        [BUILT] => AttackSource::Built(bytes(BUILT, limits::CONFORMANCE_COMPONENT_BYTES)?),
        [TEXT] => AttackSource::Text(text(TEXT, limits::CONFORMANCE_COMPONENT_BYTES)?),
        [FIELDS] => AttackSource::Fields(text(FIELDS, limits::CONFORMANCE_COMPONENT_BYTES)?),
        [] => return Err(format!("the folder has no {BUILT}, {TEXT} or {FIELDS}")),
        _ => return Err(format!("the folder has more than one of {BUILT}, {TEXT} and {FIELDS}")),
    };
    Attack::parse(name, &file, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_attack_names_are_unique_and_begin_with_their_kind() {
        let suite = AttackSuite::embedded().unwrap();
        let names: Vec<_> = suite.attacks().iter().map(|attack| attack.name.as_str()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(names.len() >= 40);
        for attack in suite.attacks() {
            assert!(attack.name.starts_with(attack.kind.name()), "{}", attack.name);
        }
        for kind in
            ["tool", "effect", "run-middleware", "provider", "model-middleware", "tool-middleware", "coordinator"]
        {
            assert!(!suite.clone().of_kinds(&[kind.parse().unwrap()]).attacks().is_empty(), "{kind}");
        }
    }

    #[test]
    fn every_attack_in_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/attacks");
        let (there, embedded) = (AttackSuite::read(&folder).unwrap(), AttackSuite::embedded().unwrap());
        let names = |suite: &AttackSuite| suite.attacks().iter().map(|attack| attack.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&there), names(&embedded));
        for (read, built_in) in there.attacks().iter().zip(embedded.attacks()) {
            assert_eq!((&read.file, read.component()), (&built_in.file, built_in.component()), "{}", read.name);
        }
    }

    #[test]
    fn a_suite_that_cannot_be_read_says_what_is_wrong() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("suite");
        let error = |says: &str| {
            let report = AttackSuite::read(&path).unwrap_err();
            assert_eq!(report.kind, ErrorKind::Usage);
            assert!(report.to_string().contains(says), "{says}: {report}");
        };
        error("no such file or folder");
        fs::create_dir(&path).unwrap();
        error("there is no attack in");
        let own = path.join("a");
        fs::create_dir(&own).unwrap();
        error("attack.toml");
        fs::write(own.join(ATTACK), "tries = \"x\"\nkind = \"tool\"\nexpect = \"held\"").unwrap();
        error("the folder has no component.wasm");
        fs::write(own.join(FIELDS), "(").unwrap();
        error("guest.wat: ");
        fs::write(own.join(TEXT), "(component)").unwrap();
        error("more than one of");
        fs::remove_file(own.join(FIELDS)).unwrap();
        AttackSuite::read(&path).unwrap();
        fs::File::create(own.join(TEXT)).unwrap().set_len(limits::CONFORMANCE_COMPONENT_BYTES + 1).unwrap();
        error("the maximum is 16777216");
        fs::write(own.join(TEXT), b"\xff").unwrap();
        error("not UTF-8");
        fs::File::create(own.join(ATTACK)).unwrap().set_len(limits::CONFORMANCE_FILE_BYTES + 1).unwrap();
        error("the maximum is 65536");
        fs::rename(&own, path.join("A b")).unwrap();
        fs::write(path.join("A b").join(ATTACK), "").unwrap();
        error("A b");
        for n in 0..=limits::CONFORMANCE_ATTACKS {
            fs::create_dir(path.join(n.to_string())).unwrap();
        }
        error("more than 1000 attacks");
    }

    #[test]
    fn more_bytes_than_a_suite_may_have_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let most = limits::CONFORMANCE_COMPONENT_BYTES;
        for n in 0..=limits::CONFORMANCE_SUITE_BYTES / most {
            let own = place.path().join(n.to_string());
            fs::create_dir(&own).unwrap();
            fs::write(own.join(ATTACK), "tries = \"x\"\nkind = \"tool\"\nexpect = \"held\"").unwrap();
            fs::File::create(own.join(BUILT)).unwrap().set_len(most).unwrap();
        }
        assert!(AttackSuite::read(place.path()).unwrap_err().to_string().contains("more than 268435456 bytes"));
    }

    #[test]
    fn what_is_exported_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let (folder, suite) = (place.path().join("out"), AttackSuite::embedded().unwrap());
        suite.export(&folder).unwrap();
        let again = AttackSuite::read(&folder).unwrap();
        for (one, other) in suite.attacks().iter().zip(again.attacks()) {
            assert_eq!((&one.name, &one.expect, one.host), (&other.name, &other.expect, other.host));
            assert_eq!(one.component(), other.component(), "{}", one.name);
        }
        for (folder, says) in
            [(folder.clone(), "the path already exists"), (folder.join("none/out"), "the parent folder does not exist")]
        {
            let report = suite.export(&folder).unwrap_err().to_string();
            assert!(report.contains("cannot write the suite") && report.contains(says), "{report}");
        }
    }
}
