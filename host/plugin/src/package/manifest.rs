//! The manifest of a plugin, `plugin.toml`.

mod file;

use std::{collections::BTreeMap, io, path::Path};

use serde::Serialize;

pub use file::ManifestBuild;
use file::{ManifestEffect, ManifestFile, ManifestFilesAccess, ManifestHttpAccess, ManifestWants};

use crate::{
    component::{Anatomy, read_inside},
    contract::{ImportRequirement, MANIFEST_FILE, PluginKind, has_chat, need_of_import, reads_chat},
    error::PluginError,
    functions::{FunctionOverrides, FunctionsManifest, InstanceLifetime},
};
use shelly_core::{
    agent::{EffectPhase, OnFailure},
    capability::{Capability, KvScope, Power, Powers, RequestedCapabilities},
    limits,
};

/// The manifest of a plugin. It is checked against the component when the component is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginManifest {
    /// 1 to 64 of `a-z 0-9 -`, unique among the plugins of a run.
    pub id: String,
    /// The version of the plugin itself.
    pub version: String,
    /// The purpose of the plugin.
    pub description: String,
    /// The file name of the component, in the same folder.
    pub component: String,
    /// The kinds of the plugin, equal to those that the component exports.
    pub kinds: Vec<PluginKind>,
    /// The capabilities that the plugin requests.
    pub wants: RequestedCapabilities,
    /// `true` if the powerless WASI base is linked: runtimes of other languages import it whatever the program does.
    /// None of its interfaces has a power that is not granted.
    pub wasi: bool,
    /// `true` if the plugin can do without everything that it wants: the wants were derived from the imports of a
    /// language runtime, and nobody declared them.
    pub wants_are_optional: bool,
    /// The phases in which its effect is called.
    pub phases: Vec<EffectPhase>,
    /// `true` if its effect shortens the conversation: such effects come before all others of an agent.
    pub shortens: bool,
    /// `true` if its run middleware looks at tasks alone: it is not called after a run, so that nothing waits for it.
    pub before_only: bool,
    /// The policy when it fails as an effect or middleware and the config sets none.
    pub on_failure: OnFailure,
    /// The scope of the store that it is made for, if it wants one.
    pub kv: KvScope,
    /// `true` if it can do without the models that it wants: then nobody is warned that it has none.
    pub models_are_optional: bool,
    /// `true` if it can do without the credentials that it wants.
    pub credentials_are_optional: bool,
    /// `true` if it can do without the files that it wants: it then runs with a file system that contains no folder.
    pub files_are_optional: bool,
    /// The names of its params, if declared: a config that names another one is refused before anything runs.
    pub params: Option<Vec<String>>,
    /// The mapping of its functions to tools, for kind `functions`.
    pub functions: FunctionsManifest,
    /// The settings of its build. They have no meaning for a plugin that runs.
    #[serde(skip)]
    pub build: ManifestBuild,
}

impl PluginManifest {
    /// Reads the manifest of a plugin folder.
    ///
    /// # Errors
    ///
    /// [`PluginError`] that names the file and, where known, the line.
    pub fn read(folder: &Path) -> Result<Self, PluginError> {
        let path = folder.join(MANIFEST_FILE);
        let bytes = read_inside(&path, folder, limits::MANIFEST_BYTES).map_err(|error| match error {
            PluginError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                PluginError::NoManifest { folder: folder.into() }
            }
            error => error,
        })?;
        Self::parse_file(&path, bytes)
    }

    /// Parses the bytes of the manifest at `path`.
    pub(super) fn parse_file(path: &Path, bytes: Vec<u8>) -> Result<Self, PluginError> {
        let wrong = |message: String| PluginError::Manifest { path: path.to_owned(), message };
        let text = String::from_utf8(bytes).map_err(|_| wrong("the file is not UTF-8".into()))?;
        Self::parse(&text).map_err(|message| wrong(with_line(&text, message)))
    }

    /// Returns `true` if the plugin consists of tools for a model, and of nothing else.
    pub fn is_tools(&self) -> bool {
        self.kinds.iter().all(|kind| kind.is_tools())
    }

    /// Returns `true` if the plugin is an effect with tools, which needs the power to offer them.
    pub(crate) fn is_effect_with_tools(&self) -> bool {
        offers_tools_as_effect(&self.kinds)
    }

    /// Derives the manifest of a component that has none from its imports and exports.
    pub(super) fn of_anatomy(id: String, component: String, anatomy: &Anatomy) -> Self {
        let needs = |need| anatomy.imports.iter().any(|import| need_of_import(import) == Some(need));
        // WASI clocks and streams are there to be used, unless files or HTTP need their types.
        let takes_types =
            needs(ImportRequirement::Granted(Capability::Files)) || needs(ImportRequirement::Granted(Capability::Http));
        let is_read = needs(ImportRequirement::WasiClock) || needs(ImportRequirement::Streams);
        let wasi =
            needs(ImportRequirement::WasiBase) || needs(ImportRequirement::WasiRandom) || is_read && !takes_types;
        let mut wants = RequestedCapabilities {
            clock: wasi && needs(ImportRequirement::WasiClock),
            random: needs(ImportRequirement::WasiRandom),
            chat: needs(ImportRequirement::Chat) && !has_chat(&anatomy.kinds),
            powers: if offers_tools_as_effect(&anatomy.kinds) { [Power::ProvideTools].into() } else { Powers::new() },
            ..RequestedCapabilities::default()
        };
        for import in &anatomy.imports {
            if let Some(ImportRequirement::Granted(capability)) = need_of_import(import) {
                wants.request(capability);
            }
        }
        let (version, description, kinds) = (String::new(), String::new(), anatomy.kinds.clone());
        Self {
            id,
            version,
            description,
            component,
            kinds,
            wants,
            wasi,
            // A runtime imports more than its program uses.
            wants_are_optional: wasi,
            phases: Vec::new(),
            shortens: false,
            before_only: false,
            on_failure: OnFailure::default(),
            kv: KvScope::Session,
            models_are_optional: false,
            credentials_are_optional: false,
            files_are_optional: false,
            params: None,
            functions: FunctionsManifest::default(),
            build: ManifestBuild::default(),
        }
    }

    /// Parses a `plugin.toml`.
    ///
    /// # Errors
    ///
    /// A description of the mistake, with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: ManifestFile = toml::from_str(text).map_err(|error| {
            let error = error.to_string();
            // Earlier versions had the key there.
            let error = error
                .replace("unknown field `powers`, expected `phases`", "unknown field `powers`; move it to [wants]");
            error.trim_end().to_owned()
        })?;
        if !is_id(&file.id) {
            return Err(format!("id: invalid id `{}`; use 1 to 64 of a-z, 0-9 and -", file.id.escape_debug()));
        }
        if file.id == "host" {
            return Err("id: `host` is reserved for the host's own tools; choose another id".into());
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '\\', '\0']) && name != "." && name != "..";
        if !is_name(&file.component) {
            return Err(format!(
                "component: `{}` is not the name of a file in the plugin's folder",
                file.component.escape_debug()
            ));
        }
        let mut kinds = file
            .kinds
            .iter()
            .map(|kind| kind.parse())
            .collect::<Result<Vec<PluginKind>, _>>()
            .map_err(|e| format!("kinds: {e}"))?;
        kinds.sort();
        kinds.dedup();
        if kinds.is_empty() {
            return Err("kinds: name at least one kind that the component exports".into());
        }
        let is_effect = kinds.contains(&PluginKind::Effect);
        let ManifestEffect { phases, shortens } = match file.effect {
            Some(_) if !is_effect => return Err("[effect] is only for a plugin of kind `effect`".into()),
            Some(effect) if effect.phases.is_empty() => return Err("effect.phases: name at least one phase".into()),
            Some(effect) => effect,
            None if is_effect => {
                return Err("an effect needs [effect] with its phases, such as `phases = [\"before-model\"]`".into());
            }
            None => ManifestEffect { phases: Vec::new(), shortens: false },
        };
        if file.run_middleware.is_some() && !kinds.contains(&PluginKind::RunMiddleware) {
            return Err("[run-middleware] is only for a plugin of kind `run-middleware`".into());
        }
        if file.on_failure.is_some() && !kinds.iter().any(|kind| kind.is_step()) {
            return Err("on_failure: only a plugin that is an effect or middleware can have this key".into());
        }
        let functions = functions_manifest(file.only, file.leave_out, file.instance, file.functions, &kinds)?;
        check_chat(&file.wants, &kinds)?;
        check_network(&file.wants, &kinds)?;
        let wants = &file.wants;
        let (wasi, scope) = (wants.wasi.is_some(), wants.kv.wanted().unwrap_or(KvScope::Session));
        let (models_are_optional, credentials_are_optional) = (wants.models.wanted().1, wants.credentials.wanted().1);
        let files_are_optional = matches!(wants.files, ManifestFilesAccess::Optional);
        Ok(Self {
            id: file.id,
            version: file.version,
            description: file.description,
            component: file.component,
            kinds,
            wants: file.wants.requested()?,
            wasi,
            wants_are_optional: false,
            phases,
            shortens,
            before_only: file.run_middleware.is_some_and(|it| it.before_only),
            on_failure: file.on_failure.unwrap_or_default(),
            kv: scope,
            models_are_optional,
            credentials_are_optional,
            files_are_optional,
            params: file.params,
            functions,
            build: file.build,
        })
    }
}

/// Returns `true` if a plugin may have this id.
pub(super) fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Returns the id of a component file without a manifest.
pub(super) fn file_id(file: &Path) -> String {
    id_of_file(&file.file_stem().unwrap_or_default().to_string_lossy())
}

/// Returns the id of a component without a manifest: the name of its file, with `-` in place of characters that an id
/// cannot have.
fn id_of_file(stem: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let id: String = stem.chars().map(allowed).take(64).collect();
    match id.trim_matches('-') {
        "" => "component".into(),
        // `host` names the host's own tools.
        "host" => "host-component".into(),
        id => id.to_owned(),
    }
}

/// Builds the mapping of functions to tools; its keys are refused for a plugin without functions.
fn functions_manifest(
    only: Option<Vec<String>>,
    leave_out: Option<Vec<String>>,
    instance: Option<InstanceLifetime>,
    functions: Option<BTreeMap<String, FunctionOverrides>>,
    kinds: &[PluginKind],
) -> Result<FunctionsManifest, String> {
    let set = [
        ("only", only.is_some()),
        ("leave_out", leave_out.is_some()),
        ("instance", instance.is_some()),
        ("functions", functions.is_some()),
    ];
    match set.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) if !kinds.contains(&PluginKind::Functions) => {
            Err(format!("{key}: only a plugin of kind `functions` can have this key"))
        }
        _ => Ok(FunctionsManifest {
            only,
            leave_out: leave_out.unwrap_or_default(),
            instance: instance.unwrap_or_default(),
            functions: functions.unwrap_or_default(),
        }),
    }
}

/// Checks what the plugin wants of chat, powers and models against its kinds.
fn check_chat(wants: &ManifestWants, kinds: &[PluginKind]) -> Result<(), String> {
    let has = |kind| kinds.contains(&kind);
    let (is_around_requests, sees_unasked) = (has(PluginKind::ModelMiddleware), has_chat(kinds));
    if wants.chat && !reads_chat(kinds) {
        return Err("chat: only a plugin of kind `effect`, `tool` or `coordinator` can read the chat".into());
    }
    if !wants.powers.is_empty() && !reads_chat(kinds) && !is_around_requests {
        return Err(
            "powers: only a plugin of kind `effect`, `model-middleware`, `tool` or `coordinator` can have powers"
                .into(),
        );
    }
    let users = |power: Power| {
        [
            (PluginKind::Effect, "effects", power.is_for_effects()),
            (PluginKind::ModelMiddleware, "model middlewares", power.is_for_requests()),
            (PluginKind::Tool, "tools", power.is_for_tools()),
            (PluginKind::Coordinator, "coordinators", power.is_for_coordinators()),
        ]
        .into_iter()
        .filter(|(.., has_use)| *has_use)
    };
    if let Some(vain) = wants.powers.iter().find(|power| !users(**power).any(|(kind, ..)| has(kind))) {
        let who: Vec<_> = users(*vain).map(|(_, name, _)| name).collect();
        return Err(format!(
            "powers: `{vain}` is for {}; every plugin with powers can have see-messages, see-arguments and see-results",
            who.join(" and ")
        ));
    }
    if wants.models.wanted().0 && !sees_unasked && !is_around_requests {
        return Err(
            "models: only a plugin of kind `effect`, `model-middleware` or `coordinator` can send requests to models"
                .into(),
        );
    }
    if wants.powers.contains(&Power::ProposeFiles) && wants.files.wanted().is_none() {
        return Err("powers: `propose-files` needs `files`; request `files` too".into());
    }
    if wants.powers.iter().any(|power| power.is_look()) && !sees_unasked && !is_around_requests && !wants.chat {
        return Err("powers: the powers of a tool need the chat; request `chat = true` too".into());
    }
    if offers_tools_as_effect(kinds) && !wants.powers.contains(&Power::ProvideTools) {
        return Err("an effect that has tools must request the power `provide-tools` in [wants]".into());
    }
    Ok(())
}

/// Checks what the plugin wants of HTTP, credentials and programs against its kinds. A step must not wait for a server
/// or a program, since the run waits for the step; tools and models may.
fn check_network(wants: &ManifestWants, kinds: &[PluginKind]) -> Result<(), String> {
    let sends = !matches!(wants.http, ManifestHttpAccess::Any(false));
    if sends && !HTTP_KINDS.iter().any(|kind| kinds.contains(kind)) {
        return Err("http: only a plugin of kind `tool`, `functions` or `provider` can send requests".into());
    }
    if wants.credentials.wanted().0 && !sends {
        return Err("credentials: credentials need requests; request `http` too".into());
    }
    if wants.programs && !kinds.contains(&PluginKind::Tool) && !kinds.contains(&PluginKind::Functions) {
        return Err("programs: only a plugin of kind `tool` or `functions` can run programs".into());
    }
    Ok(())
}

/// The kinds that may send HTTP requests.
const HTTP_KINDS: [PluginKind; 3] = [PluginKind::Tool, PluginKind::Functions, PluginKind::Provider];

/// Returns `true` if the plugin is an effect that has tools, which takes the power `provide-tools`.
fn offers_tools_as_effect(kinds: &[PluginKind]) -> bool {
    [PluginKind::Effect, PluginKind::Tool].iter().all(|kind| kinds.contains(kind))
}

/// Prefixes the message with the line number, if the message begins with the name of a key that the text sets.
fn with_line(text: &str, message: String) -> String {
    let key = message.split(':').next().unwrap_or_default();
    let sets_it =
        |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    match text.lines().position(sets_it) {
        Some(line) => format!("line {}: {message}", line + 1),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shelly_core::capability::{FileAccess, HttpGrant};

    #[test]
    fn plugin_manifest_is_parsed() {
        let manifest = PluginManifest::parse(
            r#"
            id = "guard"
            component = "guard.wasm"
            kinds = ["effect", "tool"]
            wants = { files = "read", clock = true, powers = ["note", "provide-tools"] }
            effect = { phases = ["before-model"] }
            "#,
        )
        .unwrap();
        assert_eq!(manifest.kinds, [PluginKind::Tool, PluginKind::Effect]);
        assert_eq!(manifest.wants.files, Some(FileAccess::Read));
        assert_eq!(manifest.wants.powers, [Power::Note, Power::ProvideTools].into());
    }

    #[test]
    fn plugin_manifest_files_access_is_parsed() {
        for (wants, expected) in [
            ("", (None, false)),
            ("files = \"read\"", (Some(FileAccess::Read), false)),
            ("files = \"write\"", (Some(FileAccess::Write), false)),
            ("files = \"optional\"", (Some(FileAccess::Read), true)),
        ] {
            let text = format!("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = [\"tool\"]\nwants = {{ {wants} }}");
            let PluginManifest { wants, files_are_optional, .. } = PluginManifest::parse(&text).unwrap();
            assert_eq!((wants.files, files_are_optional), expected, "{text}");
        }
    }

    #[test]
    fn plugin_manifest_functions_are_parsed() {
        let manifest = PluginManifest::parse(
            r#"
            id = "calc"
            component = "calc.wasm"
            kinds = ["functions"]
            leave_out = ["debug"]
            instance = "run"
            [functions.add]
            tool = "plus"
            description = "Adds."
            hints = ["read-only", "idempotent"]
            params = { a = "the first" }
            "#,
        );
        let said = manifest.unwrap().functions;
        assert_eq!((said.only, said.leave_out, said.instance), (None, vec!["debug".into()], InstanceLifetime::Run));
        let add = &said.functions["add"];
        assert_eq!((add.tool.as_deref(), add.description.as_deref()), (Some("plus"), Some("Adds.")));
        let hints = add.tool_hints();
        assert!(hints.read_only && hints.idempotent && !hints.closed_world && !hints.non_destructive);
        assert_eq!(add.params["a"], "the first");
    }

    #[test]
    fn plugin_manifest_build_table_is_parsed() {
        let text =
            "id = \"a\"\ncomponent = \"a.wasm\"\nkinds = [\"tool\"]\n[build]\nlanguage = \"c\"\nsource = \"src\"\n";
        let build = PluginManifest::parse(text).unwrap().build;
        assert_eq!((build.language.as_deref(), build.world, build.source.as_deref()), (Some("c"), None, Some("src")));
    }

    #[test]
    fn component_file_name_becomes_a_valid_id() {
        for (stem, id) in [
            ("calc", "calc"),
            ("My_Tool.2", "my-tool-2"),
            ("", "component"),
            ("__", "component"),
            ("host", "host-component"),
        ] {
            assert_eq!(id_of_file(stem), id);
            assert!(is_id(&id_of_file(stem)));
        }
        assert!(is_id(&id_of_file(&"é".repeat(90))) && is_id(&id_of_file(&"x".repeat(90))));
    }

    #[test]
    fn plugin_manifest_http_access_is_parsed() {
        for (wants, expected, credentials) in [
            ("http = true", HttpGrant::all(), (false, false)),
            ("http = false", HttpGrant::default(), (false, false)),
            (
                "http = [\"https://*.example.com/v1\"]",
                HttpGrant::all_below("https://*.example.com/v1").unwrap(),
                (false, false),
            ),
            ("http = true, credentials = true", HttpGrant::all(), (true, false)),
            ("http = true, credentials = \"optional\"", HttpGrant::all(), (true, true)),
        ] {
            for kind in ["tool", "provider"] {
                let text = format!("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = [\"{kind}\"]\nwants = {{ {wants} }}");
                let PluginManifest { wants, credentials_are_optional, .. } = PluginManifest::parse(&text).unwrap();
                assert_eq!((&wants.http, wants.credentials), (&expected, credentials.0), "{text}");
                assert_eq!(credentials_are_optional, credentials.1, "{text}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |change: &str| format!("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = [\"tool\"]\n{change}");
        let kinds = |kinds: &str, rest: &str| format!("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = {kinds}\n{rest}");
        let mut unexpected = Vec::new();
        for (text, says) in [
            (with("nonsense = 1"), "unknown field `nonsense`"),
            (with("wants = { kv = \"all\" }"), "expected `true`, or one of `run`, `session`, `agent` and `plugin`"),
            (with("wants = { network = true }"), "unknown field `network`"),
            (with("wants = { files = \"all\" }"), "unknown variant `all`"),
            (with("[effect]\nphases = [\"before-model\"]"), "only for a plugin of kind `effect`"),
            (with("[run-middleware]\nbefore_only = true"), "only for a plugin of kind `run-middleware`"),
            (kinds(r#"["run-middleware"]"#, "run-middleware = { after_only = true }"), "unknown field `after_only`"),
            ("id = \"A b\"\ncomponent = \"a.wasm\"\nkinds = [\"tool\"]".into(), "invalid id `A b`"),
            (
                "id = \"host\"\ncomponent = \"a.wasm\"\nkinds = [\"tool\"]".into(),
                "`host` is reserved for the host's own tools",
            ),
            ("id = \"a\"\ncomponent = \"../a.wasm\"\nkinds = [\"tool\"]".into(), "not the name of a file"),
            ("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = [\"toll\"]".into(), "unknown kind `toll`"),
            ("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = []".into(), "at least one kind"),
            ("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = [\"effect\"]".into(), "needs [effect]"),
            (
                kinds(r#"["effect"]"#, "effect = { phases = [\"before-model\"], powers = [\"note\"] }"),
                "unknown field `powers`; move it to [wants]",
            ),
            (
                kinds(r#"["effect", "tool"]"#, "effect = { phases = [\"before-model\"] }"),
                "must request the power `provide-tools`",
            ),
            (
                kinds(r#"["run-middleware"]"#, "wants = { chat = true }"),
                "chat: only a plugin of kind `effect`, `tool` or `coordinator`",
            ),
            (kinds(r#"["provider"]"#, "wants = { powers = [\"stop\"] }"), "powers: only a plugin of kind"),
            (kinds(r#"["tool-middleware"]"#, "wants = { powers = [\"answer\"] }"), "powers: only a plugin of kind"),
            (kinds(r#"["model-middleware"]"#, "wants = { powers = [\"stop\"] }"), "powers: `stop` is for effects"),
            (
                kinds(r#"["effect"]"#, "effect = { phases = [\"before-model\"] }\nwants = { powers = [\"answer\"] }"),
                "powers: `answer` is for model middlewares",
            ),
            (with("wants = { models = true }"), "models: only a plugin of kind `effect`, `model-middleware` or"),
            (
                kinds(r#"["coordinator"]"#, "wants = { powers = [\"ask-model\", \"rewrite\"] }"),
                "powers: `rewrite` is for effects and model middlewares",
            ),
            (
                kinds(r#"["tool"]"#, "wants = { powers = [\"ask-model\"] }"),
                "`ask-model` is for effects and coordinators",
            ),
            (kinds(r#"["coordinator"]"#, "on_failure = \"skip\""), "on_failure: only a plugin that is an effect"),
            (kinds(r#"["coordinator"]"#, "wants = { http = true }"), "http: only a plugin of kind `tool`"),
            (with("wants = { models = \"some\" }"), "expected `true` or `\"optional\"`"),
            (
                with("wants = { models = \"optional\" }"),
                "models: only a plugin of kind `effect`, `model-middleware` or",
            ),
            (with("wants = { wasi = true }"), "wants = { wasi = true }"),
            (with("wants = { wasi = \"all\" }"), "unknown variant `all`, expected `powerless`"),
            (with("wants = { http = \"all\" }"), "expected `true`, or a list of URLs"),
            (with("wants = { http = [] }"), "http: name 1 to 64 URLs, or write `http = true`"),
            (with(&format!("wants = {{ http = [{}] }}", "\"https://h\", ".repeat(65))), "http: name 1 to 64 URLs"),
            (with("wants = { http = [\"api.example.com\"] }"), "http: invalid URL `api.example.com`; write it with"),
            (with("wants = { http = true, credentials = \"some\" }"), "expected `true` or `\"optional\"`"),
            (kinds("[\"run-middleware\"]", "wants = { programs = true }"), "programs: only a plugin of kind `tool`"),
            (with("wants = { credentials = true }"), "credentials: credentials need requests; request `http` too"),
            (
                kinds(r#"["model-middleware"]"#, "wants = { http = true }"),
                "http: only a plugin of kind `tool`, `functions` or `provider`",
            ),
            (
                kinds(r#"["effect"]"#, "effect = { phases = [\"before-model\"] }\nwants = { http = [\"https://h\"] }"),
                "http: only a plugin of kind `tool`, `functions` or `provider`",
            ),
            (
                with("[build]\ntool = \"make\""),
                "unknown field `tool`, expected one of `language`, `engine`, `world`, `source`",
            ),
            (with("only = [\"add\"]"), "only: only a plugin of kind `functions`"),
            (with("instance = \"run\""), "instance: only a plugin of kind `functions`"),
            (kinds(r#"["functions"]"#, "instance = \"ever\""), "unknown variant `ever`, expected `call` or `run`"),
            (kinds(r#"["functions"]"#, "[functions.add]\nhints = [\"fast\"]"), "unknown variant `fast`"),
            (kinds(r#"["functions"]"#, "[functions.add]\nabout = \"x\""), "unknown field `about`"),
            (with("on_failure = \"skip\""), "on_failure: only a plugin that is an effect or middleware"),
            (with("wants = { chat = true, powers = [\"see-results\", \"stop\"] }"), "powers: `stop` is for effects"),
            (with("wants = { powers = [\"see-results\"] }"), "request `chat = true` too"),
            (with("wants = { powers = [\"propose-files\"] }"), "request `files` too"),
            (
                kinds(r#"["model-middleware"]"#, "wants = { powers = [\"propose-files\"] }"),
                "powers: `propose-files` is for tools",
            ),
            ("id = \"a\"\nkinds = [\"tool\"]".into(), "missing field `component`"),
            ("id = ".into(), "line 1"),
        ] {
            let error = PluginManifest::parse(&text).unwrap_err();
            if !error.contains(says) {
                unexpected.push(format!("{text}\n--- {error}"));
            }
        }
        assert!(unexpected.is_empty(), "{}", unexpected.join("\n\n"));
    }
}
