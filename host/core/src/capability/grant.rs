use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{FileAccess, FileGrant, HttpGrant, KvScope, KvScopes, NameSet, Power, Powers};

/// The capabilities that a plugin's manifest requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct RequestedCapabilities {
    /// Access to folders, with the mode.
    pub files: Option<FileAccess>,
    /// Access to the clock.
    pub clock: bool,
    /// Random numbers.
    pub random: bool,
    /// Access to the agent's conversation. Effects always have it.
    pub chat: bool,
    /// A key-value store.
    pub kv: bool,
    /// Models other than the agent's own.
    pub models: bool,
    /// The HTTP requests that the plugin sends.
    pub http: HttpGrant,
    /// Credentials that the host adds to its requests.
    pub credentials: bool,
    /// The parts of the conversation that it sees, and the changes that its effect makes.
    pub powers: Powers,
    /// Programs that the host runs for it.
    pub programs: bool,
}

impl RequestedCapabilities {
    /// Returns the grant that satisfies all requests, with access to every file.
    pub fn grant(&self) -> Grant {
        let Self { files, clock, random, chat, kv, models, ref http, credentials, ref powers, programs } = *self;
        let files = files.map(FileGrant::everywhere).unwrap_or_default();
        let kv = if kv { KvScope::ALL.into() } else { KvScopes::new() };
        let all_if = |wanted| if wanted { NameSet::all() } else { NameSet::default() };
        let (models, credentials, programs) = (all_if(models), all_if(credentials), all_if(programs));
        let (http, powers, mcp) = (http.clone(), powers.clone(), NameSet::default());
        Grant { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs }
    }
}

/// A set of permissions. Plugins are granted one, agents have one as an upper bound, and the [meet](Grant::meet) of two
/// allows what both allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Grant {
    /// Folders.
    pub files: FileGrant,
    /// Access to the clock.
    pub clock: bool,
    /// Random numbers.
    pub random: bool,
    /// Access to the agent's conversation.
    pub chat: bool,
    /// Key-value stores; a plugin gets the first of those allowed.
    pub kv: KvScopes,
    /// Models other than the agent's own to which it may send requests.
    pub models: NameSet,
    /// The HTTP requests that it may send.
    pub http: HttpGrant,
    /// Credentials that the host adds to its requests by name. The plugin never sees them.
    pub credentials: NameSet,
    /// The parts of the conversation that it may see, and the changes that its effect may make.
    pub powers: Powers,
    /// MCP servers whose tools it may call. Only agents have them, never plugins.
    pub mcp: NameSet,
    /// Programs that it may have run, by their names in the config.
    pub programs: NameSet,
}

impl Grant {
    /// Returns the grant of all requested capabilities, with `folder` for the files.
    pub fn all_of(wants: &RequestedCapabilities, folder: PathBuf) -> Self {
        let files = wants.files.map(|access| (folder, access)).into_iter().collect();
        Self { files, ..wants.grant() }
    }

    /// Returns what both allow.
    pub fn meet(&self, other: &Self) -> Self {
        let Self { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs } = self;
        Self {
            files: files.meet(&other.files),
            clock: *clock && other.clock,
            random: *random && other.random,
            chat: *chat && other.chat,
            kv: kv & &other.kv,
            models: models.meet(&other.models),
            http: http.meet(&other.http),
            credentials: credentials.meet(&other.credentials),
            powers: powers & &other.powers,
            mcp: mcp.meet(&other.mcp),
            programs: programs.meet(&other.programs),
        }
    }

    /// Returns what at least one of them allows.
    pub fn join(&self, other: &Self) -> Self {
        let Self { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs } = self;
        Self {
            files: files.join(&other.files),
            clock: *clock || other.clock,
            random: *random || other.random,
            chat: *chat || other.chat,
            kv: kv | &other.kv,
            models: models.join(&other.models),
            http: http.join(&other.http),
            credentials: credentials.join(&other.credentials),
            powers: powers | &other.powers,
            mcp: mcp.join(&other.mcp),
            programs: programs.join(&other.programs),
        }
    }

    /// Returns `true` if it allows everything that `other` does.
    pub fn covers(&self, other: &Self) -> bool {
        self.meet(other) == *other
    }

    /// Returns the requested capabilities that are not granted, each with the config line that would grant it.
    pub fn missing(&self, wants: &RequestedCapabilities) -> Vec<MissingCapability> {
        // A request for files names no path: one writable folder is enough, the others may be meant for reading.
        let files = wants.files.filter(|wanted| !self.files.iter().any(|(_, given)| given >= *wanted));
        let files = files.map(|wanted| MissingCapability::folder("FOLDER", wanted));
        // Nor does a request name a store: any one is enough.
        let kv = if self.kv.is_empty() && wants.kv { [KvScope::Run].into() } else { KvScopes::new() };
        // Nor does it name models: any one is enough.
        let any = |given: &NameSet, wants| if given.is_empty() && wants { NameSet::all() } else { NameSet::default() };
        let (models, credentials) = (any(&self.models, wants.models), any(&self.credentials, wants.credentials));
        let programs = any(&self.programs, wants.programs);
        // A partial grant of the requested URLs is a deliberate choice.
        let http = if self.http.meet(&wants.http).is_empty() { wants.http.clone() } else { HttpGrant::default() };
        let others = Self { files: FileGrant::default(), kv, models, http, credentials, programs, ..wants.grant() };
        files.into_iter().chain(self.lacking(&others)).collect()
    }

    /// Returns what `other` allows and this grant does not, each with the config line that would grant it.
    pub fn lacking(&self, other: &Self) -> Vec<MissingCapability> {
        let Self { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs } = other;
        let lacks = |(path, access): &(&Path, FileAccess)| self.files.access(path) < Some(*access);
        let folder = |(path, access): (&Path, FileAccess)| MissingCapability::folder(&path.to_string_lossy(), access);
        let mut missing: Vec<_> = files.iter().filter(lacks).map(folder).collect();
        for (name, wanted, given) in
            [("clock", clock, self.clock), ("random", random, self.random), ("chat", chat, self.chat)]
        {
            if *wanted && !given {
                missing.push(MissingCapability { capability: name.into(), line: format!("{name}: true") });
            }
        }
        let kv: Vec<_> = (kv - &self.kv).iter().map(KvScope::to_string).collect();
        if !kv.is_empty() {
            let kv = if kv.len() == 1 { kv.concat() } else { format!("[{}]", kv.join(", ")) };
            missing.push(MissingCapability { capability: "kv".into(), line: format!("kv: {kv}") });
        }
        let to_owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        for (name, lacking) in [
            ("models", to_owned(self.models.lacking(models, "MODEL"))),
            ("http", self.http.lacking(http)),
            ("credentials", to_owned(self.credentials.lacking(credentials, "NAME"))),
            ("mcp", to_owned(self.mcp.lacking(mcp, "SERVER"))),
            ("programs", to_owned(self.programs.lacking(programs, "PROGRAM"))),
        ] {
            if !lacking.is_empty() {
                missing.push(MissingCapability {
                    capability: name.into(),
                    line: format!("{name}: [{}]", lacking.join(", ")),
                });
            }
        }
        let powers: Vec<_> = (powers - &self.powers).iter().map(Power::to_string).collect();
        if !powers.is_empty() {
            missing.push(MissingCapability {
                capability: "powers".into(),
                line: format!("powers: [{}]", powers.join(", ")),
            });
        }
        missing
    }

    /// Returns the names of granted capabilities that the plugin does not request: they have no effect.
    pub fn unwanted(&self, wants: &RequestedCapabilities) -> Vec<String> {
        let mut unwanted = Vec::new();
        for (name, given, wanted) in [
            ("files", !self.files.is_empty(), wants.files.is_some()),
            ("clock", self.clock, wants.clock),
            ("random", self.random, wants.random),
            ("chat", self.chat, wants.chat),
            ("kv", !self.kv.is_empty(), wants.kv),
            ("models", !self.models.is_empty(), wants.models),
            ("http", !self.http.is_empty(), !wants.http.is_empty()),
            ("credentials", !self.credentials.is_empty(), wants.credentials),
            ("programs", !self.programs.is_empty(), wants.programs),
        ] {
            if given && !wanted {
                unwanted.push(name.into());
            }
        }
        let elsewhere = self.http.apart_from(&wants.http);
        if !elsewhere.is_empty() && !wants.http.is_empty() {
            unwanted.push(format!("http: [{}]", elsewhere.join(", ")));
        }
        let powers: Vec<_> = (&self.powers - &wants.powers).iter().map(Power::to_string).collect();
        if !powers.is_empty() {
            unwanted.push(format!("powers: [{}]", powers.join(", ")));
        }
        unwanted
    }
}

/// A requested capability that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCapability {
    /// The name in manifest and config.
    pub capability: String,
    /// The config line that would grant it.
    pub line: String,
}

impl MissingCapability {
    fn folder(folder: &str, access: FileAccess) -> Self {
        let mode = if access == FileAccess::Write { "write" } else { "read" };
        Self { capability: "files".into(), line: format!("files: [{{path: {folder}, mode: {mode}}}]") }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::{super::http::tests::entry, *};

    fn data(access: FileAccess) -> FileGrant {
        [("/data".into(), access)].into_iter().collect()
    }

    #[test]
    fn plugin_gets_requested_and_granted_capabilities() {
        let given =
            Grant { files: data(FileAccess::Write), clock: true, powers: [Power::Note].into(), ..Grant::default() };
        let wants = RequestedCapabilities {
            files: Some(FileAccess::Read),
            random: true,
            powers: [Power::Note, Power::Stop].into(),
            ..RequestedCapabilities::default()
        };
        let got = given.meet(&wants.grant());
        assert_eq!(got.files, data(FileAccess::Read), "no more than it asked for");
        assert!(!got.clock && !got.random);
        assert_eq!(got.powers, [Power::Note].into());
        let missing: Vec<_> = given.missing(&wants).into_iter().map(|m| m.line).collect();
        assert_eq!(missing, ["random: true", "powers: [stop]"]);
        assert_eq!(Grant::default().meet(&wants.grant()), Grant::default());
    }

    #[test]
    fn read_grant_stays_read_when_write_is_requested() {
        let given = Grant { files: data(FileAccess::Read), ..Grant::default() };
        let wants = RequestedCapabilities { files: Some(FileAccess::Write), ..RequestedCapabilities::default() };
        assert_eq!(given.meet(&wants.grant()).files, data(FileAccess::Read));
        let missing = |files| Grant { files, ..Grant::default() }.missing(&wants).into_iter().map(|m| m.line);
        let line = ["files: [{path: FOLDER, mode: write}]"];
        assert_eq!(missing(FileGrant::default()).collect::<Vec<_>>(), line);
        assert_eq!(missing(data(FileAccess::Read)).collect::<Vec<_>>(), line);
        let both = data(FileAccess::Read).join(&[("/x".into(), FileAccess::Write)].into_iter().collect());
        assert_eq!(missing(both).count(), 0);
    }

    #[test]
    fn folder_outside_the_ceiling_is_reported() {
        let below = Grant { files: data(FileAccess::Read), ..Grant::default() };
        let given =
            |path: &str| Grant { files: [(path.into(), FileAccess::Write)].into_iter().collect(), ..below.clone() };
        let lines = |path| below.lacking(&given(path)).into_iter().map(|m| m.line).collect::<Vec<_>>();
        assert_eq!(lines("/data/a"), ["files: [{path: /data/a, mode: write}]"]);
        assert_eq!(lines("/other"), ["files: [{path: /other, mode: write}]"]);
    }

    #[test]
    fn unrequested_grants_are_reported() {
        let powers = [Power::Note, Power::Stop].into();
        let (kv, models) = ([KvScope::Run].into(), ["other".into()].into_iter().collect());
        let (http, credentials) = (entry("https://h", &["GET"], &[]), ["github".into()].into_iter().collect());
        let given = Grant {
            files: data(FileAccess::Read),
            clock: true,
            random: true,
            chat: true,
            kv,
            models,
            http,
            credentials,
            powers,
            mcp: NameSet::default(),
            programs: ["cargo".into()].into_iter().collect(),
        };
        let wants =
            RequestedCapabilities { clock: true, powers: [Power::Note].into(), ..RequestedCapabilities::default() };
        let unwanted = ["files", "random", "chat", "kv", "models", "http", "credentials", "programs", "powers: [stop]"];
        assert_eq!(given.unwanted(&wants), unwanted);
        assert_eq!(given.meet(&wants.grant()).unwanted(&wants), [""; 0]);
        let http = HttpGrant::place("https://other").unwrap();
        let wants = RequestedCapabilities {
            files: Some(FileAccess::Read),
            clock: true,
            random: true,
            chat: true,
            kv: true,
            models: true,
            http: http.clone(),
            credentials: true,
            powers: given.powers.clone(),
            programs: true,
        };
        assert_eq!(given.unwanted(&wants), ["http: [{url: https://h, methods: [GET]}]"]);
        assert_eq!(given.unwanted(&RequestedCapabilities { http: http.join(&given.http), ..wants }), [""; 0]);
    }

    #[test]
    fn any_granted_kv_scope_satisfies_a_request() {
        let wants = RequestedCapabilities { kv: true, ..RequestedCapabilities::default() };
        for scope in KvScope::ALL {
            let given = Grant { kv: [scope].into(), ..Grant::default() };
            assert_eq!(given.meet(&wants.grant()), given);
            assert!(
                given.missing(&wants).is_empty() && given.meet(&RequestedCapabilities::default().grant()).kv.is_empty()
            );
            let lines: Vec<_> = Grant::default().lacking(&given).into_iter().map(|missing| missing.line).collect();
            assert_eq!(lines, [format!("kv: {scope}")]);
            let other =
                Grant { kv: KvScope::ALL.into_iter().filter(|other| *other != scope).collect(), ..given.clone() };
            assert!(given.meet(&other).kv.is_empty(), "no store holds another one");
        }
        let missing = Grant::default().missing(&wants);
        assert_eq!(missing, [MissingCapability { capability: "kv".into(), line: "kv: run".into() }]);
    }

    #[test]
    fn any_granted_model_satisfies_a_request() {
        let wants = RequestedCapabilities { models: true, ..RequestedCapabilities::default() };
        let given = Grant { models: ["cheap".into()].into_iter().collect(), ..Grant::default() };
        assert_eq!(given.meet(&wants.grant()), given);
        assert!(given.missing(&wants).is_empty() && given.models.contains("cheap") && !given.models.contains("dear"));
        let lines =
            |missing: Vec<MissingCapability>| missing.into_iter().map(|missing| missing.line).collect::<Vec<_>>();
        assert_eq!(lines(Grant::default().missing(&wants)), ["models: [MODEL]"]);
        assert_eq!(lines(Grant::default().lacking(&given)), ["models: [cheap]"]);
    }

    #[test]
    fn any_granted_program_satisfies_a_request() {
        let wants = RequestedCapabilities { programs: true, ..RequestedCapabilities::default() };
        let given = Grant { programs: ["cargo".into()].into_iter().collect(), ..Grant::default() };
        assert_eq!(given.meet(&wants.grant()), given);
        let lines =
            |missing: Vec<MissingCapability>| missing.into_iter().map(|missing| missing.line).collect::<Vec<_>>();
        assert_eq!(lines(Grant::default().missing(&wants)), ["programs: [PROGRAM]"]);
        assert_eq!(lines(Grant::default().lacking(&given)), ["programs: [cargo]"]);
        assert!(
            given.missing(&wants).is_empty()
                && given.meet(&RequestedCapabilities::default().grant()).programs.is_empty()
        );
    }

    #[test]
    fn partial_http_grant_satisfies_a_request() {
        let wants = |urls: &[&str]| RequestedCapabilities {
            http: urls.iter().fold(HttpGrant::default(), |all, url| all.join(&HttpGrant::place(url).unwrap())),
            ..RequestedCapabilities::default()
        };
        let any =
            RequestedCapabilities { http: HttpGrant::all(), credentials: true, ..RequestedCapabilities::default() };
        let given = |url| Grant { http: entry(url, &["GET"], &[]), ..Grant::default() };
        let (api, nas) = (wants(&["https://api.example.com", "https://up.example.com"]), wants(&["http://nas.lan/x"]));
        for (given, wants, got, lines) in [
            (Grant::default(), &any, "[]", &["http: [URL]", "credentials: [NAME]"][..]),
            (given("https://h"), &any, r#"["GET https://h"]"#, &["credentials: [NAME]"]),
            (Grant::default(), &api, "[]", &["http: [https://api.example.com, https://up.example.com]"]),
            (given("https://other"), &api, "[]", &["http: [https://api.example.com, https://up.example.com]"]),
            (given("https://api.example.com/v1"), &api, r#"["GET https://api.example.com/v1"]"#, &[]),
            (given("http://nas.lan"), &nas, r#"["GET http://nas.lan/x"]"#, &[]),
            (given("https://h"), &RequestedCapabilities::default(), "[]", &[]),
        ] {
            let missing: Vec<_> = given.missing(wants).into_iter().map(|missing| missing.line).collect();
            assert_eq!(missing, lines, "{given:?}");
            assert_eq!(serde_json::to_string(&given.meet(&wants.grant()).http).unwrap(), got, "{given:?}");
        }
        let given = Grant { credentials: ["github".into()].into_iter().collect(), ..Grant::default() };
        assert_eq!(given.meet(&any.grant()), given);
        let lines: Vec<_> = Grant::default().lacking(&given).into_iter().map(|missing| missing.line).collect();
        assert_eq!(lines, ["credentials: [github]"]);
    }

    /// Grants that often overlap.
    pub fn grants() -> impl Strategy<Value = Grant> {
        let access = prop_oneof![Just(FileAccess::Read), Just(FileAccess::Write)];
        let path = prop::collection::vec(prop_oneof![Just("a"), Just("b")], 0..4)
            .prop_map(|parts| parts.iter().fold(PathBuf::from("/"), |path, part| path.join(part)));
        let path = prop_oneof![8 => path, 1 => Just(PathBuf::new())];
        let files = prop::collection::vec((path, access), 0..4).prop_map(|files| files.into_iter().collect());
        let powers = prop::collection::btree_set(
            prop_oneof![Just(Power::Note), Just(Power::Stop), Just(Power::SeeMessages)],
            0..3,
        );
        let kv = prop::collection::btree_set(prop::sample::select(KvScope::ALL.to_vec()), 0..3);
        let names = || {
            let some = prop::collection::btree_set(prop_oneof![Just("a".to_owned()), Just("b".to_owned())], 0..3);
            prop_oneof![8 => some.prop_map(|names| names.into_iter().collect()), 1 => Just(NameSet::all())]
        };
        let switches = any::<[bool; 3]>();
        (files, switches, kv, names(), super::super::http::tests::any(), names(), powers, [names(), names()]).prop_map(
            |(files, [clock, random, chat], kv, models, http, credentials, powers, [mcp, programs])| Grant {
                files,
                clock,
                random,
                chat,
                kv,
                models,
                http,
                credentials,
                powers,
                mcp,
                programs,
            },
        )
    }

    proptest! {
        #[test]
        fn grants_are_a_lattice(a in grants(), b in grants(), c in grants()) {
            prop_assert_eq!(a.meet(&a), a.clone());
            prop_assert_eq!(a.join(&a), a.clone());
            prop_assert_eq!(a.meet(&b), b.meet(&a));
            prop_assert_eq!(a.join(&b), b.join(&a));
            prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
            prop_assert_eq!(a.join(&b).join(&c), a.join(&b.join(&c)));
            prop_assert_eq!(a.meet(&a.join(&b)), a.clone());
            prop_assert_eq!(a.join(&a.meet(&b)), a.clone());
            // The meet and the join are bounds of both, and a larger operand never gives a smaller result.
            prop_assert!(a.covers(&a.meet(&b)) && b.covers(&a.meet(&b)));
            prop_assert!(a.join(&b).covers(&a) && a.join(&b).covers(&b));
            prop_assert!(a.join(&b).meet(&c).covers(&a.meet(&c)));
            prop_assert_eq!(a.covers(&b), a.lacking(&b).is_empty());
        }

        #[test]
        fn folder_meet_allows_a_path_that_both_allow(a in grants(), b in grants(), path in "(/a|/b){0,4}") {
            let path = Path::new(&path);
            let both = a.files.access(path).zip(b.files.access(path)).map(|(one, other)| one.min(other));
            prop_assert_eq!(a.files.meet(&b.files).access(path), both);
            prop_assert_eq!(a.files.join(&b.files).access(path), a.files.access(path).max(b.files.access(path)));
        }
    }
}
