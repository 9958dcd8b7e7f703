//! The config file: what agents there are, which models they use, which plugins they have and what those may do.
//!
//! Unknown keys are refused with their place and the nearest known key; a key that a later version knows is refused as
//! such. `${NAME}` in `api_key` and `base_url` is replaced by a variable of the environment.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    agent::OnFailure,
    capability::{Access, FileGrant, Grant, Powers},
    error::{ErrorKind, Report, why_unreadable},
    limits,
    provider::MaxTokensField,
};

/// A config file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Models, each under a name.
    #[serde(default)]
    pub providers: Vec<ProviderConfig>,
    /// Directories of plugin folders; relative ones are below the config's root.
    #[serde(default)]
    pub plugin_dirs: Vec<PathBuf>,
    /// Agents.
    #[serde(default)]
    pub agents: Vec<AgentConfig>,
    /// The agent that runs if none is named; none: the first.
    pub entry_agent: Option<String>,
    /// The folder that relative paths are below.
    #[serde(skip)]
    pub root: PathBuf,
}

/// A model under a name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The name that agents and `--model` use.
    pub name: String,
    /// What it speaks.
    pub kind: ProviderKind,
    /// `kind: plugin`: the plugin's id.
    pub plugin: Option<String>,
    /// `kind: plugin`: the plugin's own settings.
    #[serde(default)]
    pub params: IndexMap<String, serde_json::Value>,
    /// `kind: plugin`: whether it may know the time.
    #[serde(default)]
    pub clock: bool,
    /// `kind: plugin`: whether it may have random bytes.
    #[serde(default)]
    pub random: bool,
    /// `kind: openai`: where the API begins.
    pub base_url: Option<String>,
    /// `kind: openai`: the key, by preference as `${NAME}`.
    pub api_key: Option<String>,
    /// The vendor's name for the model.
    pub model: Option<String>,
    /// Tokens that it can take.
    pub context_window: Option<u64>,
    /// The longest reply in tokens.
    pub max_tokens: Option<u32>,
    /// `kind: openai`: how the server calls the longest reply.
    pub max_tokens_field: Option<MaxTokensField>,
    /// 0 to 2.
    pub temperature: Option<f32>,
}

/// What a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// Chat Completions, as OpenAI and everyone compatible.
    #[default]
    Openai,
    /// Whatever the plugin makes of it.
    Plugin,
}

/// An agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Its name.
    pub name: String,
    /// What it is good for.
    #[serde(default)]
    pub description: String,
    /// What it is told to do and how.
    #[serde(default)]
    pub instructions: String,
    /// The name of its model; none: the first.
    pub provider: Option<String>,
    /// Its plugins by id, in order, and what each may do for it.
    #[serde(default)]
    pub plugins: IndexMap<String, Option<PluginUse>>,
    /// How it runs.
    #[serde(default)]
    pub options: AgentOptions,
}

/// How an agent runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// Turns of one run; 0 is the ceiling.
    pub max_iterations: Option<u32>,
}

/// What a plugin may do for an agent: nothing that does not stand here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginUse {
    /// Folders.
    #[serde(default)]
    pub files: Vec<FileUse>,
    /// The time.
    #[serde(default)]
    pub clock: bool,
    /// Chance.
    #[serde(default)]
    pub random: bool,
    /// The agent's conversation.
    #[serde(default)]
    pub chat: bool,
    /// What it may see of the conversation, and what its effect may do to it.
    #[serde(default)]
    pub powers: Powers,
    /// Its own settings.
    #[serde(default)]
    pub params: IndexMap<String, serde_json::Value>,
    /// Whether a run goes on if its effect fails; none: it ends.
    pub on_failure: Option<OnFailure>,
}

/// A folder for a plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileUse {
    /// The folder; a relative one is below the config's root.
    pub path: PathBuf,
    /// What the plugin sees it as; none: `path` as it is written.
    #[serde(rename = "as")]
    pub name: Option<String>,
    /// `read` or `write`.
    #[serde(default = "read")]
    pub mode: Access,
}

fn read() -> Access {
    Access::Read
}

/// Keys of the predecessor's config whose features come later: told apart from mistakes.
const NOT_YET: [&str; 24] = [
    "rate_limit",
    "batch",
    "default_context_windows",
    "mcp_servers",
    "prefix",
    "toolboxes",
    "skills",
    "effects",
    "middleware",
    "skills_tags",
    "estimated_cost",
    "max_concurrency",
    "warn_iterations",
    "max_delegation_depth",
    "max_handoffs",
    "context_threshold",
    "interaction_mode",
    "question_timeout",
    "filesystem",
    "context",
    "git",
    "net",
    "kv",
    "process",
];

impl Config {
    /// Reads a config file. Relative paths in it are below its folder, or, if that is called `.shelly`, the one around it.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file, the place in it and the mend.
    pub fn read(path: &Path) -> Result<Self, Report> {
        let shown = path.display();
        let unreadable = |error: io::Error| {
            let report = Report::new(ErrorKind::Usage, format!("cannot read the config {shown}"));
            let hint = match error.kind() {
                io::ErrorKind::IsADirectory => {
                    format!("name the file: --config {}", path.join("shelly.yaml").display())
                }
                io::ErrorKind::PermissionDenied => "change who may read it, or name another with --config".into(),
                _ => "name another with --config, or leave --config out to run without one".into(),
            };
            report.cause(why_unreadable(&error)).hint(hint)
        };
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(limits::CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > limits::CONFIG_BYTES {
            let most = limits::CONFIG_BYTES;
            return Err(Report::new(ErrorKind::Usage, format!("the config {shown} has more than {most} bytes"))
                .hint("check that --config names the right file"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            Report::new(ErrorKind::Usage, "the config is not UTF-8 text")
                .hint("save it as UTF-8, for example with iconv")
                .at(format!(", line {line}"))
                .in_file(&shown)
        })?;
        let folder = std::path::absolute(path).map_err(unreadable)?.parent().unwrap_or(Path::new("/")).to_owned();
        let root = match folder.file_name() {
            Some(name) if name == ".shelly" => folder.parent().unwrap_or(&folder).to_owned(),
            _ => folder,
        };
        Self::parse(&text, root).map_err(|report| report.in_file(shown))
    }

    /// Reads a config; relative paths in it are below `root`.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the place and the mend.
    pub fn parse(text: &str, root: PathBuf) -> Result<Self, Report> {
        let mut config: Self = if text.trim().is_empty() {
            Self::default()
        } else {
            serde_saphyr::from_str(text).map_err(|error| explain(&error, text))?
        };
        config.root = root;
        config.check()?;
        Ok(config)
    }

    /// What serde cannot see: names that must be unique, references that must lead somewhere, bounds.
    fn check(&self) -> Result<(), Report> {
        let wrong = |message: String| Err(Report::new(ErrorKind::Usage, message));
        unique("providers", self.providers.iter().map(|provider| provider.name.as_str()))?;
        unique("agents", self.agents.iter().map(|agent| agent.name.as_str()))?;
        for provider in &self.providers {
            let at = format!("providers.{}", provider.name);
            let is_plugin = provider.kind == ProviderKind::Plugin;
            if is_plugin && provider.plugin.is_none() {
                return wrong(format!("{at}: a provider of kind `plugin` needs the id of its plugin in `plugin`"));
            }
            if !is_plugin && provider.model.is_none() {
                return wrong(format!("{at}: name the model in `model`, as the server calls it"));
            }
            let only = |key: &str, set: bool, kind: &str| match set {
                true => {
                    Err(Report::new(ErrorKind::Usage, format!("{at}.{key}: this is for providers of kind `{kind}`"))
                        .hint(format!("remove it, or write `kind: {kind}`")))
                }
                false => Ok(()),
            };
            only("plugin", !is_plugin && provider.plugin.is_some(), "plugin")?;
            only("params", !is_plugin && !provider.params.is_empty(), "plugin")?;
            only("clock", !is_plugin && provider.clock, "plugin")?;
            only("random", !is_plugin && provider.random, "plugin")?;
            only("base_url", is_plugin && provider.base_url.is_some(), "openai")?;
            only("api_key", is_plugin && provider.api_key.is_some(), "openai")?;
            only("max_tokens_field", is_plugin && provider.max_tokens_field.is_some(), "openai")?;
            if provider.temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
                return wrong(format!("{at}.temperature: it lies between 0 and 2"));
            }
            if provider.max_tokens == Some(0) {
                return wrong(format!("{at}.max_tokens: it is at least 1"));
            }
        }
        let names = || self.providers.iter().map(|provider| provider.name.as_str());
        for agent in &self.agents {
            if let Some(name) = &agent.provider
                && !names().any(|known| known == name)
            {
                return Err(unknown("model", name, names()).cause(format!("agents.{}.provider names it", agent.name)));
            }
            if agent.options.max_iterations.is_some_and(|most| most > limits::MAX_ITERATIONS_CEILING) {
                let most = limits::MAX_ITERATIONS_CEILING;
                return wrong(format!("agents.{}.options.max_iterations: it is at most {most}", agent.name));
            }
        }
        if let Some(name) = &self.entry_agent {
            self.agent(Some(name)).map_err(|report| report.cause("entry_agent names it"))?;
        }
        Ok(())
    }

    /// The agent of this name; without one the entry agent.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is none.
    pub fn agent(&self, name: Option<&str>) -> Result<&AgentConfig, Report> {
        let Some(name) = name.or(self.entry_agent.as_deref()) else {
            return self.agents.first().ok_or_else(|| {
                Report::new(ErrorKind::Usage, "the config has no agent").hint("add one: `agents: [{name: helper}]`")
            });
        };
        let found = self.agents.iter().find(|agent| agent.name == name);
        found.ok_or_else(|| unknown("agent", name, self.agents.iter().map(|agent| agent.name.as_str())))
    }

    /// The directories of plugin folders: those that the config names, then `more`.
    pub fn plugin_directories(&self, more: &[PathBuf]) -> Vec<PathBuf> {
        let named = self.plugin_dirs.iter().map(|directory| self.root.join(directory));
        named.chain(more.iter().cloned()).collect()
    }

    /// The model of this name; without one the first.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is none of that name.
    pub fn provider(&self, name: Option<&str>) -> Result<Option<&ProviderConfig>, Report> {
        let Some(name) = name else { return Ok(self.providers.first()) };
        let found = self.providers.iter().find(|provider| provider.name == name);
        let names = self.providers.iter().map(|provider| provider.name.as_str());
        found.map(Some).ok_or_else(|| unknown("model", name, names))
    }
}

impl ProviderConfig {
    /// The value of this key with variables of the environment in place of `${NAME}`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a variable is not set.
    pub fn expand(
        &self,
        key: &str,
        value: Option<&str>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<String>, Report> {
        let expanded = value.map(|value| expand(value, environment)).transpose();
        expanded.map_err(|variable| {
            let place = format!("providers.{}.{key} in the config", self.name);
            if variable.is_empty() {
                return Report::new(ErrorKind::Usage, "`${}` names no variable")
                    .cause(place)
                    .hint("write its name between the braces: `${OPENAI_API_KEY}`");
            }
            Report::new(ErrorKind::Usage, format!("the environment variable {variable} is not set"))
                .cause(format!("{place} names it"))
                .hint(format!("set {variable}, or use another model with --model"))
        })
    }
}

impl PluginUse {
    /// What it gives, with paths below `root`.
    pub fn grant(&self, root: &Path) -> Grant {
        let file = |file: &FileUse| FileGrant {
            path: root.join(&file.path),
            name: file.name.clone().unwrap_or_else(|| file.path.to_string_lossy().into_owned()),
            access: file.mode,
        };
        Grant {
            files: self.files.iter().map(file).collect(),
            clock: self.clock,
            random: self.random,
            chat: self.chat,
            powers: self.powers.clone(),
        }
    }
}

/// A plugin's own settings as it is handed them.
pub fn params(params: &IndexMap<String, serde_json::Value>) -> Box<RawValue> {
    serde_json::value::to_raw_value(params).expect("a map with string keys is a JSON object")
}

/// Replaces `${NAME}` by the variable of that name. Fails with the name of a variable that is not set or is empty.
fn expand(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let name = &rest[start + 2..start + length];
        expanded.push_str(&rest[..start]);
        expanded.push_str(&environment(name).filter(|value| !value.is_empty()).ok_or_else(|| name.to_owned())?);
        rest = &rest[start + length + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn unique<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Report> {
    let mut seen = Vec::new();
    for name in names {
        if name.trim().is_empty() {
            return Err(Report::new(ErrorKind::Usage, format!("{list}: one of them has an empty name"))
                .hint("write a `name` that the others do not have"));
        }
        if seen.contains(&name) {
            return Err(Report::new(ErrorKind::Usage, format!("{list}: two of them are called `{name}`"))
                .hint("give one of them another name"));
        }
        seen.push(name);
    }
    Ok(())
}

/// There is nothing of this name; what there is, and which of it was probably meant.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Report {
    let known: Vec<_> = known.collect();
    let report = Report::new(ErrorKind::Usage, format!("there is no {what} `{}`", name.escape_debug()));
    match nearest(name, &known) {
        Some(near) => report.hint(format!("did you mean `{near}`?")),
        None if known.is_empty() => report.hint(match what {
            "agent" => "the config has none: add it under `agents`",
            "model" => "the config has none: add it under `providers`",
            _ => "there is none at all",
        }),
        None => report.hint(format!("there is: {}", known.join(", "))),
    }
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let score = |known: &str| strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    known
        .iter()
        .copied()
        .map(|known| (score(known), known))
        .filter(|(score, _)| *score >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// A mistake in the file as its reader sees it. Nothing of the file is quoted but names of keys and variants: the line
/// may hold a credential.
fn explain(error: &serde_saphyr::Error, text: &str) -> Report {
    use serde_saphyr::Error;
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    let key = || error.location().and_then(|at| key_before(text, at.line() as usize, at.column() as usize));
    let not = |what: &str| {
        usage(key().map_or_else(|| format!("{what} is wanted here"), |key| format!("`{key}` is not {what}")))
    };
    let place = error.location().map_or(String::new(), |at| format!(", line {}, column {}", at.line(), at.column()));
    let report = match error.without_snippet() {
        Error::SerdeUnknownField { field, .. } if NOT_YET.contains(&field.as_str()) => {
            usage(format!("the key `{field}` is not supported yet")).hint("remove it, or use a newer shelly-host")
        }
        Error::SerdeUnknownField { field, expected, .. } => {
            let report = usage(format!("there is no key `{}`", field.escape_debug()));
            match nearest(field, expected) {
                Some(near) => report.hint(format!("did you mean `{near}`?")),
                None => report.hint(format!("the keys here are: {}", expected.join(", "))),
            }
        }
        Error::SerdeMissingField { field, .. } => {
            usage(format!("the key `{field}` is missing")).hint(format!("add `{field}: …` to this entry"))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or(String::new(), |key| format!(" `{}`", key.escape_debug()));
            usage(format!("the key{key} is there twice")).hint("remove one of them, or join them into one")
        }
        Error::MultipleDocuments { .. } => {
            usage("the config holds more than one YAML document".into()).hint("remove `---` and what follows it")
        }
        Error::Unexpected { expected: "sequence start", .. } => {
            not("a list").hint("begin each of its entries with `- `, or write them between `[` and `]`")
        }
        Error::Unexpected { expected: "mapping start", .. } => {
            not("a mapping").hint("write its entries as `key: value`")
        }
        Error::Unexpected { expected: "string scalar", .. } => not("a text").hint("write it in quotes"),
        Error::InvalidScalar { ty, .. } if ty.starts_with(['u', 'i']) => {
            not("a whole number").hint("write it in digits")
        }
        Error::InvalidScalar { ty, .. } if ty.starts_with('f') => not("a number").hint("write it in digits"),
        Error::InvalidScalar { ty: "bool" | "boolean", .. } | Error::InvalidBooleanStrict { .. } => {
            not("a switch").hint("write `true` or `false`")
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let variant = variant.escape_debug();
            let report = usage(key().map_or_else(
                || format!("`{variant}` is not one of the values here"),
                |key| format!("`{key}` cannot be `{variant}`"),
            ));
            match nearest(&variant.to_string(), expected) {
                Some(near) => report.hint(format!("did you mean `{near}`?")),
                None => report.hint(format!("the values are: {}", expected.join(", "))),
            }
        }
        other => {
            let text = other.to_string();
            let first = text.lines().next().unwrap_or_default();
            let cause = first.rsplit_once(" at line ").map_or(first, |(cause, _)| cause);
            let report = usage("the config cannot be understood".into());
            report.cause(cause).hint("check quotes, brackets and indentation here and in the line before")
        }
    };
    report.at(place)
}

/// The key whose value begins at this place, if it stands on the same line.
fn key_before(text: &str, line: usize, column: usize) -> Option<&str> {
    let line = text.lines().nth(line.checked_sub(1)?)?;
    let end = line.char_indices().nth(column.checked_sub(1)?).map_or(line.len(), |(end, _)| end);
    let before = line[..end].trim_end().strip_suffix(':')?;
    let start = before.rfind([' ', ',', '{', '[', '"', '\'']).map_or(0, |start| start + 1);
    Some(&before[start..]).filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Report> {
        Config::parse(text, "/project".into())
    }

    #[test]
    fn a_config_is_read() {
        let config = parse(
            "
providers:
  - {name: offline, kind: plugin, plugin: offline-model}
  - {name: local, kind: openai, base_url: 'http://localhost:11434/v1', model: llama}
agents:
  - name: helper
    provider: local
    plugins:
      read-files:
        files: [{path: docs, mode: read}]
      count-text:
      loop-guard:
        powers: [note, stop]
        params: {threshold: 3, deep: {list: [1, true, null, x]}}
        on_failure: skip
    options: {max_iterations: 7}
",
        )
        .unwrap();
        let agent = config.agent(None).unwrap();
        assert_eq!(agent.plugins.keys().collect::<Vec<_>>(), ["read-files", "count-text", "loop-guard"]);
        let grant = agent.plugins["read-files"].as_ref().unwrap().grant(&config.root);
        assert_eq!(
            grant.files,
            [FileGrant { path: "/project/docs".into(), name: "docs".into(), access: Access::Read }]
        );
        let guard = agent.plugins["loop-guard"].as_ref().unwrap();
        assert_eq!(params(&guard.params).get(), r#"{"threshold":3,"deep":{"list":[1,true,null,"x"]}}"#);
        assert_eq!(config.provider(Some("local")).unwrap().unwrap().model.as_deref(), Some("llama"));
    }

    #[test]
    fn mistakes_name_place_and_mend() {
        let helper = |rest: &str| format!("agents:\n  - name: helper\n{rest}");
        for (text, message, hint) in [
            ("agent: []".into(), "there is no key `agent`", "did you mean `agents`?"),
            (helper("    plugin: {}\n"), "there is no key `plugin`", "did you mean `plugins`?"),
            (helper("    colour: red\n"), "there is no key `colour`", "the keys here are: name, description"),
            (helper("    toolboxes: [git]\n"), "the key `toolboxes` is not supported yet", "newer shelly-host"),
            (helper("    provider: nope\n"), "there is no model `nope`", "add it under `providers`"),
            (helper("entry_agent: helpr\n"), "there is no agent `helpr`", "did you mean `helper`?"),
            (helper("  - name: helper\n"), "agents: two of them are called `helper`", ""),
            (helper("    plugins: {x: {files: [{path: ., mode: reed}]}}\n"), "`mode` cannot be `reed`", "`read`"),
            (
                helper("    plugins: {x: {powers: [stopp]}}\n"),
                "`stopp` is not one of the values",
                "did you mean `stop`?",
            ),
            (helper("    options: {max_iterations: 999999}\n"), "it is at most 10000", ""),
            ("providers: [{name: a, kind: plugin}]".into(), "needs the id of its plugin", ""),
            ("providers: [{name: a, kind: openai}]".into(), "name the model in `model`", ""),
            ("providers: [{kind: openai}]".into(), "the key `name` is missing", ""),
            ("providers: [{name: a, kind: openai, model: m, plugin: x}]".into(), "for providers of kind `plugin`", ""),
            ("providers: [{name: a, kind: openai, model: m, temperature: 3}]".into(), "between 0 and 2", ""),
            ("agents: [".into(), "cannot be understood", ""),
            ("agents: 7".into(), "`agents` is not a list", "`- `"),
            ("agents:\n  7".into(), "a list is wanted here", "`- `"),
            (helper("    plugins: [x]\n"), "`plugins` is not a mapping", "`key: value`"),
            (helper("    options: {max_iterations: many}\n"), "`max_iterations` is not a whole number", ""),
            ("agents: []\nagents: []".into(), "the key `agents` is there twice", "join them"),
            ("agents: []\n---\nagents: []".into(), "more than one YAML document", "`---`"),
        ] {
            let report = parse(&text).unwrap_err();
            assert!(report.message.contains(message), "{text}\n{report:?}");
            assert!(report.hint.clone().unwrap_or_default().contains(hint), "{text}\n{report:?}");
        }
    }

    #[test]
    fn the_line_of_a_mistake_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shelly.yaml");
        fs::write(&path, "agents:\n  - name: a\n    colour: red\n").unwrap();
        let report = Config::read(&path).unwrap_err();
        assert!(report.message.ends_with("shelly.yaml, line 3, column 5)"), "{}", report.message);
    }

    #[test]
    fn variables_are_replaced_or_missed_by_name() {
        let environment = |name: &str| (name == "KEY").then(|| "secret".to_owned());
        for (text, expanded) in [
            ("${KEY}", Ok("secret")),
            ("a${KEY}b${KEY}", Ok("asecretbsecret")),
            ("$KEY ${", Ok("$KEY ${")),
            ("x${NO}y", Err("NO")),
            ("${}", Err("")),
        ] {
            assert_eq!(expand(text, &environment), expanded.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
