//! Ceilings as JSON, for runs that other hosts do.
//!
//! Every key must be there and no other may: a bound that this version does not know is refused, and never dropped.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    Budget, Ceiling, CeilingBound, FileAccess, FileGrant, Grant, HttpGrant, KvScopes, NameSet, Powers,
    http::HttpRuleRecord,
};
use crate::limits;

/// The version of the form.
const VERSION: u32 = 1;

/// Stands before the config path of a bound that came from another host: its config may have another bound at the same path.
const OF_PARENT: &str = "the parent run's ";

/// The version of a ceiling, whatever else is in it.
#[derive(Deserialize)]
struct CeilingVersion {
    version: u32,
}

/// A ceiling in its written form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CeilingRecord {
    version: u32,
    bounds: BTreeMap<String, CeilingBoundRecord>,
}

/// A bound in its written form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CeilingBoundRecord {
    #[serde(deserialize_with = "present")]
    grant: Option<GrantRecord>,
    openable: GrantRecord,
    #[serde(deserialize_with = "present")]
    agents: Option<BTreeSet<String>>,
    budget: Budget,
}

/// A grant in its written form. Sets of names and HTTP rules are `null` if they have everything.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantRecord {
    files: Vec<FolderRecord>,
    clock: bool,
    random: bool,
    chat: bool,
    kv: KvScopes,
    #[serde(deserialize_with = "present")]
    models: Option<BTreeSet<String>>,
    #[serde(deserialize_with = "present")]
    http: Option<Vec<HttpRuleRecord>>,
    #[serde(deserialize_with = "present")]
    credentials: Option<BTreeSet<String>>,
    powers: Powers,
    #[serde(deserialize_with = "present")]
    mcp: Option<BTreeSet<String>>,
    #[serde(deserialize_with = "present")]
    programs: Option<BTreeSet<String>>,
}

/// A folder in its written form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FolderRecord {
    path: String,
    /// `true` if the path is below the root of the project, which each host may have elsewhere.
    in_project: bool,
    access: FileAccess,
}

/// Deserializes a value that may be `null` but not be missing.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

impl Ceiling {
    /// Returns the ceiling as JSON for another host. Folders below `root`, the root of the project, are written relative to
    /// it.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be written: a path is not Unicode, or it is larger than
    /// [`limits::CEILING_JSON_BYTES`].
    pub fn to_json(&self, root: &Path) -> Result<Value, String> {
        let bound = |(path, bound): (&Arc<str>, &Arc<CeilingBound>)| {
            let CeilingBound { grant, openable, agents, budget } = &**bound;
            let grant = grant.as_ref().map(|grant| GrantRecord::of(grant, root)).transpose()?;
            let openable = GrantRecord::of(openable, root)?;
            Ok::<_, String>((
                path.to_string(),
                CeilingBoundRecord { grant, openable, agents: agents.clone(), budget: *budget },
            ))
        };
        let bounds = self.0.iter().map(bound).collect::<Result<_, String>>()?;
        let written =
            serde_json::to_value(CeilingRecord { version: VERSION, bounds }).map_err(|error| error.to_string())?;
        check_size(&written).map(|()| written)
    }

    /// Parses the ceiling of another host. Folders of the project are those below `root` here.
    ///
    /// # Errors
    ///
    /// The reason why it is none: nothing of it is dropped.
    pub fn from_json(written: &Value, root: &Path) -> Result<Self, String> {
        check_size(written)?;
        let CeilingVersion { version } = CeilingVersion::deserialize(written).map_err(|error| error.to_string())?;
        if version > VERSION {
            return Err(format!("it has version {version}, and this host reads up to version {VERSION}"));
        }
        let CeilingRecord { bounds, .. } = CeilingRecord::deserialize(written).map_err(|error| error.to_string())?;
        if bounds.len() > limits::CEILING_JSON_BOUNDS {
            return Err(format!("it has more than {} bounds", limits::CEILING_JSON_BOUNDS));
        }
        let bound = |(path, written): (String, CeilingBoundRecord)| {
            let CeilingBoundRecord { grant, openable, agents, budget } = written;
            let grant = grant.map(|grant| grant.into_grant(root)).transpose()?;
            let openable = openable.into_grant(root)?;
            let path: Arc<str> = format!("{OF_PARENT}{path}").into();
            Ok::<_, String>((path, Arc::new(CeilingBound { grant, openable, agents, budget })))
        };
        bounds.into_iter().map(bound).collect::<Result<_, String>>().map(Self)
    }
}

impl GrantRecord {
    fn of(grant: &Grant, root: &Path) -> Result<Self, String> {
        let Grant { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs } = grant;
        Ok(Self {
            files: files.iter().map(|folder| FolderRecord::of(folder, root)).collect::<Result<_, String>>()?,
            clock: *clock,
            random: *random,
            chat: *chat,
            kv: kv.clone(),
            models: models.listed().cloned(),
            http: http.to_records(),
            credentials: credentials.listed().cloned(),
            powers: powers.clone(),
            mcp: mcp.listed().cloned(),
            programs: programs.listed().cloned(),
        })
    }

    fn into_grant(self, root: &Path) -> Result<Grant, String> {
        let Self { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs } = self;
        let folders = files.into_iter().map(|folder| folder.into_folder(root)).collect::<Result<Vec<_>, String>>()?;
        Ok(Grant {
            files: folders.into_iter().collect::<FileGrant>(),
            clock,
            random,
            chat,
            kv,
            models: NameSet::of_listed(models),
            http: HttpGrant::of_records(http)?,
            credentials: NameSet::of_listed(credentials),
            powers,
            mcp: NameSet::of_listed(mcp),
            programs: NameSet::of_listed(programs),
        })
    }
}

impl FolderRecord {
    fn of((path, access): (&Path, FileAccess), root: &Path) -> Result<Self, String> {
        // The empty path is every file, and not the project.
        let below = path.strip_prefix(root).ok().filter(|_| !root.as_os_str().is_empty());
        let written = below.unwrap_or(path).to_str().ok_or_else(|| {
            format!(
                "the folder {} has a name that other hosts cannot be told",
                path.display().to_string().escape_debug()
            )
        })?;
        Ok(Self { path: written.to_owned(), in_project: below.is_some(), access })
    }

    fn into_folder(self, root: &Path) -> Result<(PathBuf, FileAccess), String> {
        let path = PathBuf::from(self.path);
        let is_plain = |part: Component<'_>| match part {
            Component::Normal(_) => true,
            Component::RootDir | Component::Prefix(_) => !self.in_project,
            Component::CurDir | Component::ParentDir => false,
        };
        match path.components().all(is_plain) {
            true if self.in_project => Ok((root.join(path), self.access)),
            true => Ok((path, self.access)),
            false => Err("a folder of it is not written as a plain path".into()),
        }
    }
}

fn check_size(written: &Value) -> Result<(), String> {
    let bytes = serde_json::to_vec(written).map_or(usize::MAX, |json| json.len());
    match bytes > limits::CEILING_JSON_BYTES {
        true => Err(format!("it has more than {} bytes as JSON", limits::CEILING_JSON_BYTES)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capability::{KvScope, Power};

    fn names(all: &[&str]) -> NameSet {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    fn full() -> Ceiling {
        let http =
            HttpGrant::entry("https://*.example.com/v1", &["POST".into()], &["10.0.0.0/8".parse().unwrap()]).unwrap();
        let grant = Grant {
            files: [("/project/src".into(), FileAccess::Write), ("/data".into(), FileAccess::Read)]
                .into_iter()
                .collect(),
            clock: true,
            random: true,
            chat: true,
            kv: [KvScope::Run, KvScope::Plugin].into(),
            models: NameSet::all(),
            http: http.join(&HttpGrant::entry("http://127.0.0.1:8080", &["*".into()], &[]).unwrap()),
            credentials: names(&["github"]),
            powers: [Power::SeeMessages, Power::ProposeFiles].into(),
            mcp: names(&["files"]),
            programs: NameSet::default(),
        };
        let budget = Budget { tokens: Some(9), usd: Some("0.25".parse().unwrap()), ..Budget::default() };
        let agents = Some(["helper".to_owned()].into());
        let openable = Grant { http: HttpGrant::all(), ..Grant::default() };
        let bound = CeilingBound { grant: Some(grant), openable, agents, budget };
        Ceiling::of("agents.lead.delegable", bound).meet(&Ceiling::of("teams.all.use", CeilingBound::default()))
    }

    #[test]
    fn ceiling_bounds_the_same_on_another_host() {
        let written = full().to_json(Path::new("/project")).unwrap();
        let read = Ceiling::from_json(&written, Path::new("/project")).unwrap();
        let paths = read.paths();
        let expected = ["the parent run's agents.lead.delegable", "the parent run's teams.all.use"];
        assert_eq!(paths.iter().map(|path| &**path).collect::<Vec<_>>(), expected);
        let bounds = |ceiling: &Ceiling| ceiling.0.values().cloned().collect::<Vec<_>>();
        assert_eq!(bounds(&read), bounds(&full()), "nothing is lost on the way");
        // A project that lies elsewhere there.
        let moved = Ceiling::from_json(&written, Path::new("/srv/p")).unwrap();
        let given: FileGrant = [("/srv/p".into(), FileAccess::Write)].into_iter().collect();
        let left = moved.narrow(&Grant { files: given, ..Grant::default() }).files;
        assert_eq!(left, [("/srv/p/src".into(), FileAccess::Write)].into_iter().collect());
        assert_eq!(
            Ceiling::from_json(&Ceiling::default().to_json(Path::new("/")).unwrap(), Path::new("/")),
            Ok(Ceiling::default())
        );
    }

    #[test]
    fn bound_that_is_unknown_or_missing_is_refused() {
        let root = Path::new("/project");
        let written = full().to_json(root).unwrap();
        let bound = "agents.lead.delegable";
        type Change<'a> = &'a dyn Fn(&mut Value);
        let changes: [(Change<'_>, &str); 10] = [
            (&|all: &mut Value| all["version"] = json!(2), "has version 2"),
            (&|all: &mut Value| all["more"] = json!(1), "unknown field `more`"),
            (&|all: &mut Value| all["bounds"][bound]["more"] = json!(1), "unknown field `more`"),
            (&|all: &mut Value| all["bounds"][bound]["grant"]["gpu"] = json!(true), "unknown field `gpu`"),
            (&|all: &mut Value| all["bounds"][bound]["budget"]["joules"] = json!(1), "unknown field `joules`"),
            (
                &|all: &mut Value| all["bounds"][bound]["grant"]["http"][0]["when"] = json!("now"),
                "unknown field `when`",
            ),
            (
                &|all: &mut Value| drop(all["bounds"][bound].as_object_mut().unwrap().remove("grant")),
                "missing field `grant`",
            ),
            (
                &|all: &mut Value| drop(all["bounds"][bound]["grant"].as_object_mut().unwrap().remove("http")),
                "missing field `http`",
            ),
            (
                &|all: &mut Value| all["bounds"][bound]["grant"]["files"][0]["path"] = json!("../etc"),
                "not written as a plain path",
            ),
            (
                &|all: &mut Value| all["bounds"][bound]["agents"] = json!(["x".repeat(limits::CEILING_JSON_BYTES)]),
                "more than",
            ),
        ];
        for (change, why) in changes {
            let mut changed = written.clone();
            change(&mut changed);
            let refused = Ceiling::from_json(&changed, root).unwrap_err();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        let mut many = written.clone();
        for n in 0..=limits::CEILING_JSON_BOUNDS {
            let empty = written["bounds"]["teams.all.use"].clone();
            many["bounds"][n.to_string()] = empty;
        }
        assert!(Ceiling::from_json(&many, root).unwrap_err().contains("bounds"));
    }
}
