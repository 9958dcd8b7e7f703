use std::path::PathBuf;

use serde::Serialize;

use super::{
    FileAccess, FileGrant, HttpGrant, KvScopes, MissingCapability, NameSet, Powers,
    permission::{CapabilityRequest, Lattice, Permission, RequestFor},
};

/// Declares every capability once: the form in which a plugin requests it, and the form in which it is granted. The text
/// after `=` stands in a config line for the part that a person has to choose.
///
/// All that is done with each capability of a grant is derived from this table. The forms of the values are in
/// `permission`.
macro_rules! capabilities {
    (
        requested { $($(#[$wanted_doc:meta])* $wanted:ident as $wanted_variant:ident: $wanted_type:ty,)* }
        granted { $($(#[$doc:meta])* $name:ident as $variant:ident: $type:ty = $example:literal,)* }
    ) => {
        /// A capability.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Capability {
            $($(#[$doc])* $variant,)*
        }

        impl Capability {
            /// Returns its name in manifest and config.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                }
            }

            /// Returns the line under `[wants]` in a manifest that requests it, if a plugin may only request all of it.
            pub fn request_line(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!(stringify!($name), " = true"),)*
                }
            }
        }

        /// The capabilities that a plugin's manifest requests.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
        pub struct RequestedCapabilities {
            $($(#[$wanted_doc])* pub $wanted: $wanted_type,)*
        }

        impl RequestedCapabilities {
            /// Returns the grant that satisfies all requests, with access to every file.
            pub fn grant(&self) -> Grant {
                Grant { $($wanted: self.$wanted.grant(),)* ..Grant::default() }
            }

            /// Adds the least request of a capability, if a request need not say what it is for.
            pub fn request(&mut self, capability: Capability) {
                match capability {
                    $(Capability::$wanted_variant => self.$wanted.add_least(),)*
                    _ => {}
                }
            }

            /// Returns the requests of both that the other makes too.
            pub fn meet(&self, other: &Self) -> Self {
                Self { $($wanted: CapabilityRequest::meet(&self.$wanted, &other.$wanted),)* }
            }
        }

        /// A set of permissions. Plugins are granted one, agents have one as an upper bound, and the [meet](Grant::meet) of
        /// two allows what both allow.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
        pub struct Grant {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Grant {
            /// Returns what both allow.
            pub fn meet(&self, other: &Self) -> Self {
                Self { $($name: Lattice::meet(&self.$name, &other.$name),)* }
            }

            /// Returns what at least one of them allows.
            pub fn join(&self, other: &Self) -> Self {
                Self { $($name: Lattice::join(&self.$name, &other.$name),)* }
            }

            /// Returns `true` if it allows any part of a capability.
            pub fn has(&self, capability: Capability) -> bool {
                match capability {
                    $(Capability::$variant => !Lattice::is_nothing(&self.$name),)*
                }
            }

            /// Returns what `other` allows and this grant does not, each with the config line that would grant it.
            pub fn lacking(&self, other: &Self) -> Vec<MissingCapability> {
                let missing = [$(Permission::lacking(&self.$name, &other.$name, stringify!($name), $example),)*];
                powers_last(missing.into_iter().flatten().collect())
            }

            /// Returns the requested capabilities that are not granted, each with the config line that would grant it.
            pub fn missing(&self, wants: &RequestedCapabilities) -> Vec<MissingCapability> {
                // A request names no path, store or model: any one of them is enough.
                let open = Self { $($wanted: wants.$wanted.unsatisfied(&self.$wanted),)* ..Self::default() };
                self.lacking(&open)
            }

            /// Returns the granted capabilities that the plugin does not request: they have no effect.
            pub fn unwanted(&self, wants: &RequestedCapabilities) -> Vec<String> {
                let unwanted = [$(wants.$wanted.unwanted(&self.$wanted, stringify!($wanted)),)*];
                let mut unwanted: Vec<_> = unwanted.into_iter().flatten().collect();
                // Whole capabilities come before parts of one.
                unwanted.sort_by_key(|what| what.contains(": "));
                unwanted
            }
        }
    };
}

capabilities! {
    requested {
        /// Access to folders, with the mode.
        files as Files: Option<FileAccess>,
        /// Access to the clock.
        clock as Clock: bool,
        /// Random numbers.
        random as Random: bool,
        /// Access to the agent's conversation. Effects always have it.
        chat as Chat: bool,
        /// A key-value store.
        kv as Kv: bool,
        /// Models other than the agent's own.
        models as Models: bool,
        /// The HTTP requests that the plugin sends.
        http as Http: HttpGrant,
        /// Credentials that the host adds to its requests.
        credentials as Credentials: bool,
        /// The parts of the conversation that it sees, and the changes that its effect makes.
        powers as Powers: Powers,
        /// Programs that the host runs for it.
        programs as Programs: bool,
    }
    granted {
        /// Folders.
        files as Files: FileGrant = "FOLDER",
        /// Access to the clock.
        clock as Clock: bool = "true",
        /// Random numbers.
        random as Random: bool = "true",
        /// Access to the agent's conversation.
        chat as Chat: bool = "true",
        /// Key-value stores; a plugin gets the first of those allowed.
        kv as Kv: KvScopes = "run",
        /// Models other than the agent's own to which it may send requests.
        models as Models: NameSet = "MODEL",
        /// The HTTP requests that it may send.
        http as Http: HttpGrant = "URL",
        /// Credentials that the host adds to its requests by name. The plugin never sees them.
        credentials as Credentials: NameSet = "NAME",
        /// The parts of the conversation that it may see, and the changes that its effect may make.
        powers as Powers: Powers = "POWER",
        /// MCP servers whose tools it may call. Only agents have them, never plugins.
        mcp as Mcp: NameSet = "SERVER",
        /// Programs that it may have run, by their names in the config.
        programs as Programs: NameSet = "PROGRAM",
    }
}

/// Reports powers after everything else: they say what is done with the rest.
fn powers_last(mut missing: Vec<MissingCapability>) -> Vec<MissingCapability> {
    missing.sort_by_key(|missing| missing.capability == Capability::Powers.name());
    missing
}

impl Grant {
    /// Returns the grant of all requested capabilities, with `folder` for the files.
    pub fn all_of(wants: &RequestedCapabilities, folder: PathBuf) -> Self {
        let files = wants.files.map(|access| (folder, access)).into_iter().collect();
        Self { files, ..wants.grant() }
    }

    /// Returns `true` if it allows everything that `other` does.
    pub fn covers(&self, other: &Self) -> bool {
        self.meet(other) == *other
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::{
        super::{FileAccess, KvScope, Power, http::tests::entry},
        *,
    };

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
        let http = HttpGrant::all_below("https://other").unwrap();
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
            http: urls.iter().fold(HttpGrant::default(), |all, url| all.join(&HttpGrant::all_below(url).unwrap())),
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
