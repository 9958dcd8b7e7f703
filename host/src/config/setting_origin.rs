//! The file and line from which each setting of an effective config comes.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use super::{
    Config,
    effective_setting::{EffectiveSetting, SettingValue, is},
    located_yaml::LocatedYaml,
};
use crate::error::Report;

/// The files of a config with the line of each key, the project's before the user-wide one.
#[derive(Debug, Clone, Default)]
pub struct ConfigSources(Vec<ConfigSource>);

#[derive(Debug, Clone)]
struct ConfigSource {
    file: PathBuf,
    yaml: LocatedYaml,
}

/// A setting with its origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OriginatedSetting {
    /// Its position in the effective config, such as `providers.claude.model`.
    pub key: String,
    /// Its value; a credential is masked.
    pub value: Value,
    /// The place where it is set.
    pub origin: SettingOrigin,
    /// A note on the value if no file sets it as shown; empty: there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub note: &'static str,
}

/// The place where a setting is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A line of a file, counted from 1.
    File {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
    },
    /// No file sets it.
    Default,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line } => write!(f, "{}:{line}", file.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Serialize for SettingOrigin {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File { file, line } => {
                let mut map = to.serialize_map(Some(2))?;
                map.serialize_entry("file", &file.to_string_lossy())?;
                map.serialize_entry("line", line)?;
                map.end()
            }
            Self::Default => to.serialize_str("default"),
        }
    }
}

/// A step from a setting to one within it.
#[derive(Debug, Clone)]
enum SettingStep {
    Key(String),
    /// An entry of a list, with its name if it has one.
    Entry(usize, Option<String>),
}

impl Config {
    /// Reads the files of the config once more, for the lines of their keys.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a file cannot be read any more.
    pub fn sources(&self) -> Result<ConfigSources, Report> {
        let files = self.file.iter().chain(&self.user.file);
        files
            .map(|file| Ok(ConfigSource::new(file, &Self::text_of(file)?.0)))
            .collect::<Result<_, _>>()
            .map(ConfigSources)
    }
}

impl ConfigSources {
    /// Returns each setting by itself. The fixed limits of the host are left out: they are no settings.
    pub(super) fn settings(&self, effective: &EffectiveSetting) -> Vec<OriginatedSetting> {
        let mut settings = Vec::new();
        if let SettingValue::Map(keys) = &effective.holds {
            for (key, setting) in keys.iter().filter(|(key, _)| key != "house") {
                self.add(&mut vec![SettingStep::Key(key.clone())], setting, &mut settings);
            }
        }
        settings
    }

    fn add(&self, path: &mut Vec<SettingStep>, setting: &EffectiveSetting, found: &mut Vec<OriginatedSetting>) {
        let mut one = |value: Value, path: &[SettingStep]| {
            let (origin, note) = (self.origin(path, !setting.note().is_empty()), setting.note());
            found.push(OriginatedSetting { key: shown(path), value, origin, note });
        };
        match &setting.holds {
            SettingValue::One(value) => one(value.clone(), path),
            SettingValue::List(list) if list.is_empty() => one(Value::Array(Vec::new()), path),
            SettingValue::Map(map) if map.is_empty() => one(Value::Object(Default::default()), path),
            SettingValue::List(list) => {
                for (at, entry) in list.iter().enumerate() {
                    path.push(SettingStep::Entry(at, name_of(entry)));
                    self.add(path, entry, found);
                    path.pop();
                }
            }
            SettingValue::Map(map) => {
                for (key, value) in map {
                    path.push(SettingStep::Key(key.clone()));
                    self.add(path, value, found);
                    path.pop();
                }
            }
        }
    }

    /// Returns the files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|source| source.file.as_path())
    }

    /// Returns the part of an effective config that the files set; `None` if they set nothing.
    pub(super) fn set_by_files(&self, effective: &EffectiveSetting) -> Option<EffectiveSetting> {
        let set = self.part(&mut Vec::new(), effective)?;
        matches!(&set.holds, SettingValue::Map(keys) if !keys.is_empty()).then_some(set)
    }

    fn part(&self, path: &mut Vec<SettingStep>, setting: &EffectiveSetting) -> Option<EffectiveSetting> {
        let written = self.written(path);
        let mut within = |step: SettingStep, setting: &EffectiveSetting| {
            path.push(step);
            let part = self.part(path, setting);
            path.pop();
            part
        };
        let kept = match &setting.holds {
            SettingValue::One(_) => return written.map(|_| setting.clone()),
            // A text in the place of a mapping names it, as in `toolboxes: [exec]`; nothing in its place leaves all to the host.
            SettingValue::Map(keys) if written.is_some_and(LocatedYaml::is_scalar) => {
                let is_text = written.is_some_and(|written| written.text().is_some());
                return keys.first().map(|(_, name)| if is_text { name.clone() } else { is(&Value::Null) });
            }
            SettingValue::Map(keys) => {
                let parts = keys
                    .iter()
                    .filter(|(key, _)| key != "house")
                    .filter_map(|(key, setting)| Some((key.clone(), within(SettingStep::Key(key.clone()), setting)?)));
                SettingValue::Map(parts.collect())
            }
            SettingValue::List(entries) => {
                let parts = entries.iter().enumerate();
                let parts = parts.filter_map(|(at, entry)| within(SettingStep::Entry(at, name_of(entry)), entry));
                SettingValue::List(parts.collect())
            }
        };
        let is_empty = matches!(&kept, SettingValue::Map(keys) if keys.is_empty())
            || matches!(&kept, SettingValue::List(entries) if entries.is_empty());
        (!is_empty || written.is_some()).then(|| EffectiveSetting::new(kept))
    }

    /// Returns the place at which a file writes a setting.
    fn written(&self, path: &[SettingStep]) -> Option<&LocatedYaml> {
        self.sources_of(path).iter().find_map(|ConfigSource { yaml, .. }| {
            let of_plugin = || node_of(yaml, &without_plugin(path)?).ok();
            node_of(yaml, path).ok().or_else(of_plugin)
        })
    }

    /// Returns the origin of a setting. `is_noted`: its value is not as a file sets it, or is set by none.
    fn origin(&self, path: &[SettingStep], is_noted: bool) -> SettingOrigin {
        for ConfigSource { file, yaml } in self.sources_of(path) {
            let line = line_of(yaml, path, is_noted)
                .or_else(|| without_plugin(path).and_then(|path| line_of(yaml, &path, is_noted)));
            if let Some(line) = line {
                return SettingOrigin::File { file: file.clone(), line };
            }
        }
        SettingOrigin::Default
    }

    /// Returns the files in which a setting may stand: an entry is that of one file as a whole.
    fn sources_of<'a>(&'a self, path: &[SettingStep]) -> &'a [ConfigSource] {
        let has_entry = |source: &ConfigSource| node_of(&source.yaml, &path[..2]).is_ok();
        match path.len() > 1 && is_list_of_entries(&path[0]) {
            true => self.0.iter().position(has_entry).map_or(&self.0[..], |at| &self.0[..=at]),
            false => &self.0,
        }
    }
}

impl ConfigSource {
    fn new(file: &Path, text: &str) -> Self {
        let empty = || LocatedYaml { line: 1, content: super::located_yaml::YamlContent::Mapping(Vec::new()) };
        Self { file: file.to_owned(), yaml: LocatedYaml::parse(text).unwrap_or_else(empty) }
    }
}

/// Returns the line of a setting. If a text stands in the place of a mapping, it sets what has no note.
fn line_of(yaml: &LocatedYaml, path: &[SettingStep], is_noted: bool) -> Option<u64> {
    match node_of(yaml, path) {
        Ok(node) => Some(node.line),
        Err((depth, last)) => (depth > 0 && last.is_scalar() && !is_noted).then_some(last.line),
    }
}

/// Returns the place of a setting in a file.
///
/// # Errors
///
/// Returns the last place on the way to it, and the number of steps to that.
fn node_of<'a>(yaml: &'a LocatedYaml, path: &[SettingStep]) -> Result<&'a LocatedYaml, (usize, &'a LocatedYaml)> {
    let mut there = yaml;
    for (depth, step) in path.iter().enumerate() {
        let next = match step {
            SettingStep::Key(key) => there.get(key),
            // The entries of both files stand in one list.
            SettingStep::Entry(_, Some(name)) if depth == 1 => there.named(name),
            SettingStep::Entry(at, _) => there.at(*at),
        };
        there = next.ok_or((depth, there))?;
    }
    Ok(there)
}

/// Returns the path in the file of a setting of a plugin in a toolbox, which in the effective config stands under the
/// plugin's id.
fn without_plugin(path: &[SettingStep]) -> Option<Vec<SettingStep>> {
    let is_plugins = |step: &SettingStep| matches!(step, SettingStep::Key(key) if key == "plugins");
    let at = path.iter().position(is_plugins)?;
    let is_in_toolbox = at >= 2 && matches!(&path[at - 2], SettingStep::Key(key) if key == "toolboxes");
    (is_in_toolbox && path.len() > at + 2).then(|| [&path[..at], &path[at + 2..]].concat())
}

/// Returns `true` for the keys under which a project's entries are joined with those of the user-wide config by name.
fn is_list_of_entries(step: &SettingStep) -> bool {
    const LISTS: [&str; 8] =
        ["providers", "credentials", "mcp_servers", "openapi", "programs", "toolboxes", "agents", "teams"];
    matches!(step, SettingStep::Key(key) if LISTS.contains(&key.as_str()))
}

fn name_of(entry: &EffectiveSetting) -> Option<String> {
    let SettingValue::Map(keys) = &entry.holds else { return None };
    keys.iter().find_map(|(key, setting)| match &setting.holds {
        SettingValue::One(Value::String(name)) if key == "name" => Some(name.clone()),
        _ => None,
    })
}

fn shown(path: &[SettingStep]) -> String {
    path.iter().fold(String::new(), |shown, step| match step {
        SettingStep::Key(name) | SettingStep::Entry(_, Some(name)) if shown.is_empty() => name.clone(),
        SettingStep::Key(name) | SettingStep::Entry(_, Some(name)) => format!("{shown}.{name}"),
        SettingStep::Entry(at, None) => format!("{shown}[{at}]"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigRuntimeInfo, EffectiveConfig, UserConfig};

    const PROJECT: &str = "\
providers:
  - {name: own, kind: openai, model: m,
     api_key: sk-secret}
agents:
  - name: a
    toolboxes:
      - exec
      - name: filesystem
        files: [{path: docs}]
    options:
      max_iterations: 0
limits:
  log_entries: 3
";

    const USER: &str = "\
providers:
  - {name: own, kind: openai, model: n, max_tokens: 9}
  - name: mine
    kind: ollama
    model: n
limits: {log_entries: 4, state_bytes: 5}
";

    #[test]
    fn each_setting_has_its_file_and_line_or_is_a_default() {
        let folder = tempfile::tempdir().unwrap();
        let (project, user) = (folder.path().join("p.yaml"), folder.path().join("u.yaml"));
        std::fs::write(&project, PROJECT).unwrap();
        std::fs::write(&user, USER).unwrap();
        let config = Config::read_with_user(&project, Some(UserConfig::parse(&user, USER).unwrap())).unwrap();
        let settings =
            EffectiveConfig::new(&config, &ConfigRuntimeInfo::default()).settings(&config.sources().unwrap());
        let in_file = |file: &Path, line| SettingOrigin::File { file: file.to_owned(), line };
        for (key, value, origin) in [
            ("providers.own.model", "\"m\"", in_file(&project, 2)),
            ("providers.own.api_key", "\"***\"", in_file(&project, 3)),
            ("providers.own.base_url", "\"https://api.openai.com/v1\"", SettingOrigin::Default),
            ("providers.own.max_tokens", "null", SettingOrigin::Default),
            ("providers.mine.kind", "\"ollama\"", in_file(&user, 4)),
            ("providers.mine.name", "\"mine\"", in_file(&user, 3)),
            ("default_provider", "\"own\"", SettingOrigin::Default),
            ("agents.a.toolboxes.exec.name", "\"exec\"", in_file(&project, 7)),
            ("agents.a.toolboxes.exec.programs", "null", SettingOrigin::Default),
            ("agents.a.toolboxes.filesystem.plugins.filesystem.files[0].mode", "\"read\"", SettingOrigin::Default),
            ("agents.a.options.max_iterations", "10000", in_file(&project, 11)),
            ("agents.a.options.max_handoffs", "0", SettingOrigin::Default),
            ("limits.log_entries", "3", in_file(&project, 13)),
            ("limits.state_bytes", "5", in_file(&user, 6)),
            ("limits.log_bytes", "1048576", SettingOrigin::Default),
            ("teams", "[]", SettingOrigin::Default),
        ] {
            let found = settings.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("{key}"));
            assert_eq!((found.value.to_string().as_str(), &found.origin), (value, &origin), "{key}");
        }
        let path = settings.iter().find(|setting| setting.key.ends_with("plugins.filesystem.files[0].path")).unwrap();
        assert_eq!(path.origin, in_file(&project, 9));
        let shown = serde_json::to_string(&settings).unwrap();
        assert!(!shown.contains("sk-secret") && shown.contains(r#""origin":"default""#), "{shown}");
        assert!(!settings.iter().any(|setting| setting.key.starts_with("house")));
    }

    #[test]
    fn settings_of_the_files_are_shown_without_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let (project, user) = (folder.path().join("p.yaml"), folder.path().join("u.yaml"));
        std::fs::write(&project, PROJECT).unwrap();
        std::fs::write(&user, USER).unwrap();
        let config = Config::read_with_user(&project, Some(UserConfig::parse(&user, USER).unwrap())).unwrap();
        let sources = config.sources().unwrap();
        let effective = EffectiveConfig::new(&config, &ConfigRuntimeInfo::default());
        let set = effective.set_to_yaml(&sources).unwrap();
        let docs = folder.path().join("docs");
        let expected = format!(
            "providers:\n  - name: own\n    kind: openai\n    api_key: \"***\"\n    model: m\n  - name: mine\n    kind: ollama\n    \
             model: \"n\"\nagents:\n  - name: a\n    toolboxes:\n      - exec\n      - name: filesystem\n        plugins:\n          \
             filesystem:\n            files:\n              - path: {}\n    options:\n      max_iterations: 10000 # 0: the \
             maximum\nlimits:\n  log_entries: 3\n  state_bytes: 5\n",
            docs.display()
        );
        assert_eq!(set, expected);
        let nothing = Config::parse("", folder.path().to_owned()).unwrap();
        let effective = EffectiveConfig::new(&nothing, &ConfigRuntimeInfo::default());
        assert_eq!(effective.set_to_yaml(&nothing.sources().unwrap()), None);
    }
}
