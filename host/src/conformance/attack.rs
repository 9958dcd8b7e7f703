//! One attack: its attempt, its grant, its expected verdict.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::guest;
use crate::{
    agent::EffectPhase,
    capability::{FileAccess, HttpGrant, Powers, RequestedCapabilities},
    limits,
    plugin::PluginKind,
};

/// The end of an attack on a host that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackVerdict {
    /// The plugin was not loaded.
    Refused,
    /// The plugin was stopped because its time was over.
    TimedOut,
    /// The plugin was stopped at a limit on its resources or its output.
    Limited,
    /// The plugin crashed, and nothing else did.
    Trapped,
    /// The plugin ran to its end without an escape.
    Held,
}

impl AttackVerdict {
    /// All verdicts.
    const ALL: [Self; 5] = [Self::Refused, Self::TimedOut, Self::Limited, Self::Trapped, Self::Held];

    /// Returns the name in `attack.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::TimedOut => "timed-out",
            Self::Limited => "limited",
            Self::Trapped => "trapped",
            Self::Held => "held",
        }
    }
}

/// The time and memory that a host may use for an attack that it plays in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostBounds {
    /// The wall time from the idle host to the verdict.
    pub time: Duration,
    /// The bytes of memory beyond those of the idle host: of its process and all processes that it starts.
    pub memory: u64,
}

/// A plugin that attacks its host.
#[derive(Debug, Clone)]
pub struct Attack {
    /// The name: 1 to 64 of `a-z 0-9 -`, unique in its suite.
    pub name: String,
    /// One sentence that says what it tries.
    pub tries: String,
    /// The kind of the plugin.
    pub kind: PluginKind,
    /// The verdicts that pass.
    pub expect: Vec<AttackVerdict>,
    /// The capabilities that its manifest requests.
    pub wants: RequestedCapabilities,
    /// The granted capabilities; `None`: all that it requests.
    pub grant: Option<RequestedCapabilities>,
    /// The capabilities that a parent agent may delegate to the agent with the plugin; `None`: all.
    pub ceiling: Option<RequestedCapabilities>,
    /// The phases of its effect.
    pub phases: Vec<EffectPhase>,
    /// The number of calls of its tool, in one run, one after the other.
    pub calls: u32,
    /// The arguments of these calls.
    pub arguments: String,
    /// `true` if its calls get little wall time, because they never end.
    pub hasty: bool,
    /// `true` if its calls get little processor time, and as much wall time as others.
    pub busy: bool,
    /// The bounds on the host; `None` if it is played in the process of the suite.
    pub host: Option<HostBounds>,
    /// A text that the host's error must contain where it refuses the attack, in upper or lower case.
    pub names: Option<String>,
    /// The wall time in the budget of its run; `None` for no limit.
    pub run_time: Option<Duration>,
    /// `true` if paths in its folder are exchanged with links that lead out of it while it runs.
    pub swaps_links: bool,
    /// The source of its component.
    pub(super) source: Arc<AttackSource>,
    pub(super) repeat: Arc<[TextRepeat]>,
    pub(super) built: Arc<OnceLock<Result<Vec<u8>, String>>>,
    /// The text of its `attack.toml`.
    pub(super) file: String,
}

/// The source of the component.
#[derive(Debug)]
pub(super) enum AttackSource {
    /// `component.wasm`.
    Built(Vec<u8>),
    /// `component.wat`.
    Text(String),
    /// `guest.wat`: the fields of a core module.
    Fields(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct AttackFile {
    tries: String,
    kind: String,
    expect: toml::Value,
    #[serde(default)]
    wants: AttackWants,
    grant: Option<AttackWants>,
    ceiling: Option<AttackWants>,
    #[serde(default)]
    phases: Vec<EffectPhase>,
    #[serde(default = "once")]
    calls: u32,
    #[serde(default = "arguments")]
    arguments: String,
    #[serde(default)]
    hasty: bool,
    #[serde(default)]
    busy: bool,
    host: Option<AttackHostConfig>,
    names: Option<String>,
    run_seconds: Option<u64>,
    #[serde(default)]
    swaps_links: bool,
    #[serde(default)]
    repeat: Vec<TextRepeat>,
}

/// The table `host` of an `attack.toml`.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AttackHostConfig {
    seconds: u64,
    mebibytes: u64,
}

impl Default for AttackHostConfig {
    fn default() -> Self {
        Self {
            seconds: limits::CONFORMANCE_HOST_TIME.as_secs(),
            mebibytes: limits::CONFORMANCE_HOST_MEMORY_BYTES >> 20,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AttackWants {
    files: Option<FileAccess>,
    clock: bool,
    random: bool,
    chat: bool,
    kv: bool,
    models: bool,
    /// URLs, as in a config.
    http: Vec<String>,
    powers: Powers,
}

/// A text that replaces each mark in the component's text, repeated. `{n}` in it is the number of the repetition, from 1
/// on, and `{n-1}` the one before.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextRepeat {
    mark: String,
    text: String,
    times: usize,
}

fn once() -> u32 {
    1
}

fn arguments() -> String {
    r#"{"attack":true}"#.into()
}

impl TryFrom<AttackWants> for RequestedCapabilities {
    type Error = String;

    fn try_from(
        AttackWants { files, clock, random, chat, kv, models, http, powers }: AttackWants,
    ) -> Result<Self, String> {
        let entries = http.iter().map(|url| {
            HttpGrant::entry(url, &["*".to_owned()], &[]).map_err(|why| format!("attack.toml: http: {why}"))
        });
        let http = entries.collect::<Result<Vec<_>, _>>()?.iter().fold(HttpGrant::default(), |all, one| all.join(one));
        Ok(Self { files, clock, random, chat, kv, models, http, powers, ..Self::default() })
    }
}

impl Attack {
    /// Parses an `attack.toml`.
    pub(super) fn parse(name: &str, file: &str, source: AttackSource) -> Result<Self, String> {
        let is_name = (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !is_name {
            return Err("the folder's name must be 1 to 64 characters of a-z, 0-9 and -".into());
        }
        let failed = |error: toml::de::Error| format!("attack.toml: {}", error.to_string().trim_end());
        let parsed: AttackFile = toml::from_str(file).map_err(failed)?;
        let within = |what, ok| if ok { Ok(()) } else { Err(format!("attack.toml: {what}")) };
        let kind: PluginKind = parsed.kind.parse().map_err(|error| format!("attack.toml: kind: {error}"))?;
        let expect = verdicts(&parsed.expect).map_err(|error| format!("attack.toml: expect: {error}"))?;
        within("expect: name at least one verdict", !expect.is_empty())?;
        let most = limits::CONFORMANCE_SENTENCE_BYTES;
        within("tries: must have 1 to 500 bytes", (1..=most).contains(&parsed.tries.len()))?;
        within("calls: must be 1 to 16", (1..=limits::CONFORMANCE_CALLS).contains(&parsed.calls))?;
        within("hasty, busy: set only one of them", !(parsed.hasty && parsed.busy))?;
        within("phases: valid only for an effect", parsed.phases.is_empty() || kind == PluginKind::Effect)?;
        within("phases: an effect needs at least one", !parsed.phases.is_empty() || kind != PluginKind::Effect)?;
        let (most_seconds, most_bytes) =
            (limits::CONFORMANCE_RUN_TIME.as_secs(), limits::CONFORMANCE_HOST_MEMORY_CEILING_BYTES);
        let host = parsed.host.map(|AttackHostConfig { seconds, mebibytes }| HostBounds {
            time: Duration::from_secs(seconds),
            memory: mebibytes.saturating_mul(1 << 20),
        });
        let is_bounded = |host: HostBounds| {
            (1..=most_seconds).contains(&host.time.as_secs()) && (1..=most_bytes).contains(&host.memory)
        };
        within("host: must be 1 to 40 seconds, and 1 to 4096 mebibytes", host.is_none_or(is_bounded))?;
        let is_short = |seconds: &u64| (1..=most_seconds).contains(seconds);
        within("run-seconds: must be 1 to 40", parsed.run_seconds.as_ref().is_none_or(is_short))?;
        let names_something = |names: &String| !names.is_empty() && names.len() <= most;
        within("names: must have 1 to 500 bytes", parsed.names.as_ref().is_none_or(names_something))?;
        within(
            "names: valid only if `refused` is expected",
            parsed.names.is_none() || expect.contains(&AttackVerdict::Refused),
        )?;
        let is_text = !matches!(source, AttackSource::Built(_));
        within("repeat: valid only for component.wat and guest.wat", is_text || parsed.repeat.is_empty())?;
        Ok(Self {
            name: name.into(),
            tries: parsed.tries,
            kind,
            expect,
            wants: parsed.wants.try_into()?,
            grant: parsed.grant.map(RequestedCapabilities::try_from).transpose()?,
            ceiling: parsed.ceiling.map(RequestedCapabilities::try_from).transpose()?,
            phases: parsed.phases,
            calls: parsed.calls,
            arguments: parsed.arguments,
            hasty: parsed.hasty,
            busy: parsed.busy,
            host,
            names: parsed.names,
            run_time: parsed.run_seconds.map(Duration::from_secs),
            swaps_links: parsed.swaps_links,
            source: Arc::new(source),
            repeat: parsed.repeat.into(),
            built: Arc::default(),
            file: file.into(),
        })
    }

    /// Returns the component, which is built at the first call, since some are large.
    ///
    /// # Errors
    ///
    /// A sentence, if the text is no component.
    pub fn component(&self) -> Result<&[u8], String> {
        let built = self.built.get_or_init(|| match &*self.source {
            AttackSource::Built(bytes) => Ok(bytes.clone()),
            AttackSource::Text(text) => {
                let text = repeated(text.clone(), &self.repeat)?;
                wat::parse_str(text).map_err(|error| format!("component.wat: {error}"))
            }
            AttackSource::Fields(text) => {
                let text = repeated(text.clone(), &self.repeat)?;
                guest::component(&text, self.kind).map_err(|error| format!("guest.wat: {error}"))
            }
        });
        built.as_deref().map_err(Clone::clone)
    }

    /// Returns the capabilities that its agent grants.
    pub(super) fn granted(&self) -> &RequestedCapabilities {
        self.grant.as_ref().unwrap_or(&self.wants)
    }

    /// Returns the capabilities that it has in the end: granted, and below the ceiling.
    pub(super) fn given(&self) -> RequestedCapabilities {
        self.granted().meet(self.ceiling.as_ref().unwrap_or(self.granted()))
    }

    /// Returns the manifest of its plugin.
    pub(super) fn manifest(&self) -> String {
        let RequestedCapabilities { files, clock, random, chat, kv, models, http, powers, .. } = &self.wants;
        let files = match files {
            Some(FileAccess::Read) => "files = \"read\"\n",
            Some(FileAccess::Write) => "files = \"write\"\n",
            None => "",
        };
        let powers: Vec<_> = powers.iter().map(|power| format!("\"{power}\"")).collect();
        let http: Vec<_> = http.rules().map(|rule| format!("{:?}", rule.url())).collect();
        let http = if http.is_empty() { String::new() } else { format!("http = [{}]\n", http.join(", ")) };
        let effect = match self.kind {
            PluginKind::Effect => {
                let phase = |phase: &EffectPhase| {
                    if *phase == EffectPhase::AfterModel { "after-model" } else { "before-model" }
                };
                let phases: Vec<_> = self.phases.iter().map(|one| format!("\"{}\"", phase(one))).collect();
                format!("[effect]\nphases = [{}]\n", phases.join(", "))
            }
            _ => String::new(),
        };
        format!(
            "id = \"{}\"\ncomponent = \"component.wasm\"\nkinds = [\"{}\"]\n[wants]\n{files}{http}clock = {clock}
random = {random}\nchat = {chat}\nkv = {kv}\nmodels = {models}\npowers = [{}]\n{effect}",
            self.name,
            self.kind,
            powers.join(", ")
        )
    }

    /// Writes it into a new folder, with its component built.
    pub(super) fn export(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)?;
        // The repetitions are in the built component.
        let (before, _) = self.file.split_once("\n[[repeat]]").unwrap_or((&self.file, ""));
        fs::write(folder.join(FILE), format!("{}\n", before.trim_end()))?;
        fs::write(folder.join(BUILT), self.component().map_err(io::Error::other)?)
    }
}

/// Parses a verdict, or a list of verdicts.
fn verdicts(value: &toml::Value) -> Result<Vec<AttackVerdict>, String> {
    let names = || AttackVerdict::ALL.map(AttackVerdict::name).join(", ");
    let verdict = |value: &toml::Value| {
        let name = value.as_str().ok_or_else(|| format!("write one of {}, or a list of them", names()))?;
        let known = AttackVerdict::ALL.into_iter().find(|verdict| verdict.name() == name);
        known.ok_or_else(|| format!("there is no verdict `{}`; available: {}", name.escape_debug(), names()))
    };
    match value {
        toml::Value::Array(list) => list.iter().map(verdict).collect(),
        one => Ok(vec![verdict(one)?]),
    }
}

/// The file that describes an attack.
pub(super) const FILE: &str = "attack.toml";
/// The file of the built component.
pub(super) const BUILT: &str = "component.wasm";

/// Replaces the marks in a text by their repetitions.
fn repeated(mut text: String, repeats: &[TextRepeat]) -> Result<String, String> {
    for TextRepeat { mark, text: once, times } in repeats {
        let marks = text.matches(mark.as_str()).count();
        if mark.is_empty() || marks == 0 {
            return Err(format!("attack.toml: repeat: `{}` is not in the text", mark.escape_debug()));
        }
        let number = times.checked_ilog10().map_or(1, |digits| digits as usize + 1);
        let longest = once.len() + number * once.matches("{n").count();
        let bytes = longest.saturating_mul(*times).saturating_mul(marks).saturating_add(text.len());
        if bytes as u64 > limits::CONFORMANCE_COMPONENT_BYTES {
            let most = limits::CONFORMANCE_COMPONENT_BYTES;
            return Err(format!("attack.toml: repeat: the text would have {bytes} bytes, at most {most} are allowed"));
        }
        let all = match once.contains("{n") {
            true => (1..=*times)
                .map(|n| once.replace("{n}", &n.to_string()).replace("{n-1}", &(n - 1).to_string()))
                .collect(),
            false => once.repeat(*times),
        };
        text = text.replace(mark.as_str(), &all);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLITE: &str = "tries = \"nothing\"\nkind = \"tool\"\nexpect = \"held\"\n";

    fn parsed(file: &str, text: &str) -> Result<Attack, String> {
        let attack = Attack::parse("a", file, AttackSource::Fields(text.into()))?;
        attack.component()?;
        Ok(attack)
    }

    #[test]
    fn minimal_attack_is_a_well_behaved_tool() {
        let attack = parsed(POLITE, "").unwrap();
        assert_eq!((attack.kind, attack.calls, attack.hasty), (PluginKind::Tool, 1, false));
        assert_eq!(attack.expect, [AttackVerdict::Held]);
        assert!(attack.component().unwrap().starts_with(b"\0asm"));
        for kind in ["effect", "run-middleware", "provider", "model-middleware", "tool-middleware", "coordinator"] {
            let phases = if kind == "effect" { "phases = [\"before-model\"]\n" } else { "" };
            parsed(&(POLITE.replace("tool", kind) + phases), "").unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
    }

    #[test]
    fn attack_host_bounds_have_defaults() {
        let host = |text: &str| parsed(&format!("{POLITE}{text}"), "").unwrap().host;
        let (time, memory) = (limits::CONFORMANCE_HOST_TIME, limits::CONFORMANCE_HOST_MEMORY_BYTES);
        assert_eq!(host(""), None);
        assert_eq!(host("host = {}"), Some(HostBounds { time, memory }));
        assert_eq!(host("host = { mebibytes = 7 }"), Some(HostBounds { time, memory: 7 << 20 }));
    }

    #[test]
    fn repetitions_are_numbered_where_a_text_asks_for_it() {
        let repeat = |text: &str| TextRepeat { mark: "@".into(), text: text.into(), times: 3 };
        assert_eq!(repeated("<@>".into(), &[repeat("a")]).unwrap(), "<aaa>");
        assert_eq!(repeated("<@>".into(), &[repeat("{n-1}{n} ")]).unwrap(), "<01 12 23 >");
    }

    #[test]
    fn attack_capabilities_are_its_grant_within_its_ceiling() {
        let wants = "wants = { files = \"write\", clock = true, kv = true, powers = [\"note\", \"stop\"] }\n";
        let of = |more: &str| parsed(&format!("{POLITE}{wants}{more}"), "").unwrap().given();
        let all = of("");
        assert!(all.clock && all.kv && all.files == Some(FileAccess::Write) && all.powers.len() == 2);
        assert_eq!(of("grant = {}\nceiling = { clock = true }"), RequestedCapabilities::default());
        let less = of("grant = { files = \"write\", clock = true, powers = [\"note\"] }
            ceiling = { files = \"read\", clock = true, kv = true, powers = [\"stop\"] }");
        assert_eq!(
            less,
            RequestedCapabilities { files: Some(FileAccess::Read), clock: true, ..RequestedCapabilities::default() }
        );
    }

    #[test]
    fn an_attack_that_cannot_be_read_says_what_is_wrong() {
        let repeat = |times: u64| format!("{POLITE}[[repeat]]\nmark = \"@\"\ntext = \"(func)\"\ntimes = {times}\n");
        assert!(parsed(&repeat(3), "@").is_ok());
        for (file, text, says) in [
            ("kind = \"tool\"".to_owned(), "", "missing field"),
            (format!("{POLITE}nonsense = 1"), "", "unknown field `nonsense`"),
            (
                POLITE.replace("\"held\"", "\"free\""),
                "",
                "attack.toml: expect: there is no verdict `free`; available: refused, timed-out, limited, trapped, held",
            ),
            (POLITE.replace("\"held\"", "[\"held\", \"hold\"]"), "", "expect: there is no verdict `hold`"),
            (POLITE.replace("\"held\"", "7"), "", "expect: write one of refused, timed-out"),
            (POLITE.replace("\"held\"", "[]"), "", "expect: name at least one verdict"),
            (POLITE.replace("tool", "toll"), "", "unknown kind `toll`"),
            (POLITE.replace("nothing", &"x".repeat(501)), "", "must have 1 to 500 bytes"),
            (format!("{POLITE}hasty = true\nbusy = true"), "", "set only one of them"),
            (format!("{POLITE}calls = 17"), "", "calls: must be 1 to 16"),
            (format!("{POLITE}host = {{ seconds = 41 }}"), "", "host: must be 1 to 40 seconds"),
            (format!("{POLITE}host = {{ mebibytes = 0 }}"), "", "1 to 4096 mebibytes"),
            (format!("{POLITE}host = {{ mebibytes = 4097 }}"), "", "1 to 4096 mebibytes"),
            (format!("{POLITE}host = {{ minutes = 1 }}"), "", "unknown field `minutes`"),
            (format!("{POLITE}run-seconds = 41"), "", "run-seconds: must be 1 to 40"),
            (format!("{POLITE}names = \"threads\""), "", "names: valid only if `refused` is expected"),
            (POLITE.replace("held\"", "refused\"\nnames = \"\""), "", "names: must have 1 to 500 bytes"),
            (format!("{POLITE}phases = [\"before-model\"]"), "", "phases: valid only for an effect"),
            (POLITE.replace("tool", "effect"), "", "an effect needs at least one"),
            (POLITE.to_owned(), "(func", "guest.wat: "),
            (POLITE.to_owned(), "(import \"a\" \"b\" (func $f)) (func (call $f))", "guest.wat: "),
            (repeat(1), "", "`@` is not in the text"),
            (repeat(limits::CONFORMANCE_COMPONENT_BYTES / 6 + 1), "@", "at most 16777216 are allowed"),
            (repeat(1 << 62), "@@@@", "at most 16777216 are allowed"),
        ] {
            let error = parsed(&file, text).unwrap_err();
            assert!(error.contains(says), "{says}: {error}");
        }
        for name in ["", "A", "../a", &"a".repeat(65)] {
            assert!(Attack::parse(name, POLITE, AttackSource::Fields(String::new())).is_err(), "{name}");
        }
        let built = Attack::parse("a", &repeat(1), AttackSource::Built(vec![]));
        assert!(built.unwrap_err().contains("repeat: valid only for component.wat and guest.wat"));
    }
}
