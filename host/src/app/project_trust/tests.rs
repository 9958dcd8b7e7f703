use std::{fs, sync::Arc};

use super::{ProjectTrustStatus, project_trust_status::instruction_facts, project_trust_writer::ProjectTrustWriter};
use crate::{
    approval::{ApprovalBroker, HeadlessPolicy, PermissionSubject, TrustPersistence, TrustedSubjects, Verdict},
    assemble::App,
    config::Config,
    error::Report,
    event::RunCx,
    limits,
    plugin::PluginDirs,
    project::{ProjectLayout, ProjectPermissions},
    trust::{InstructionFile, ProjectTrust, TrustFacts, TrustStore, TrustedTool},
};

/// A project and the person's store.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.layout().local()).unwrap();
        world
    }

    fn layout(&self) -> ProjectLayout {
        ProjectLayout::new(self.folder.path().join("project"))
    }

    fn store(&self) -> TrustStore {
        TrustStore::new(Some(self.folder.path().join("state/trust.json")))
    }

    fn allow(&self, json: &str) {
        fs::write(self.layout().permissions(), json).unwrap();
    }

    fn standing(&self, config: &str, is_named: bool) -> Result<ProjectTrustStatus, Report> {
        self.standing_of(Config::parse(config, self.layout().root().into())?, PluginDirs::default(), is_named)
    }

    fn standing_of(&self, config: Config, dirs: PluginDirs, is_named: bool) -> Result<ProjectTrustStatus, Report> {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        App::new(config, dirs, None, Arc::new(|_| None), broker)?.standing(&self.store(), is_named)
    }

    /// Returns the state of trust in a folder without a config, where the person's own folder has a plugin of these bytes.
    fn standing_with_own_plugin(&self, project: &str, component: &str) -> ProjectTrustStatus {
        let (own, root) = (self.folder.path().join("data/plugins"), self.folder.path().join(project));
        fs::create_dir_all(own.join("mine")).unwrap();
        fs::create_dir_all(&root).unwrap();
        let manifest = "id = \"mine\"\nkinds = [\"tool\"]\ncomponent = \"c.wasm\"\n";
        fs::write(own.join("mine/plugin.toml"), manifest).unwrap();
        fs::write(own.join("mine/c.wasm"), component).unwrap();
        let dirs = PluginDirs { standard: vec![own], offers_standard: true, ..PluginDirs::default() };
        self.standing_of(Config { root, ..Config::default() }, dirs, false).unwrap()
    }
}

fn tool(name: &str) -> PermissionSubject {
    PermissionSubject::Tool { agent: "ada".into(), origin: "p".into(), name: name.into(), digest: "d".into() }
}

fn lines(facts: &TrustFacts) -> Vec<&str> {
    facts.lines().collect()
}

const ONE: &str = "providers: [{name: m, kind: openai, model: m, base_url: 'http://one.example'}]\n";

#[test]
fn changed_facts_need_consent_again() {
    let world = World::new();
    let first = world.standing(ONE, false).unwrap();
    assert_eq!(lines(first.new_facts()), ["the model `m` is at `http://one.example`; conversations are sent there"]);
    assert!(!first.is_trusted() && !first.was_trusted());
    assert!(world.standing(ONE, true).unwrap().is_trusted(), "the person has named it");
    assert!(world.standing("agents: [{name: a}]", false).unwrap().is_trusted(), "it names nothing");
    first.keep().unwrap();
    assert!(world.standing(&format!("# a comment\n{ONE}"), false).unwrap().is_trusted());
    assert!(world.standing("", false).unwrap().is_trusted(), "less is allowed");
    let other = world.standing(&ONE.replace("one", "two"), false).unwrap();
    assert!(!other.is_trusted() && other.was_trusted());
    assert_eq!(lines(&other.gone()), lines(first.new_facts()));
    other.keep().unwrap();
    assert!(!world.standing(ONE, false).unwrap().is_trusted(), "what was before is not any more");
    // Another project with the same config.
    fs::rename(world.layout().root(), world.folder.path().join("moved")).unwrap();
    fs::create_dir(world.layout().root()).unwrap();
    fs::rename(world.folder.path().join("moved"), world.layout().root().join("below")).unwrap();
    let config = Config::parse(&ONE.replace("one", "two"), world.layout().root().join("below")).unwrap();
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let app = App::new(config, &[], None, Arc::new(|_| None), broker).unwrap();
    assert!(!app.standing(&world.store(), false).unwrap().is_trusted());
}

#[test]
fn consent_to_an_own_plugin_holds_in_all_projects() {
    let world = World::new();
    let first = world.standing_with_own_plugin("one", "bytes");
    let [line] = lines(first.new_facts())[..] else { panic!("{:?}", first.new_facts()) };
    assert!(line.starts_with("the plugin `mine` in `") && first.is_own(line), "{line}");
    assert!(first.is_about_own_alone() && first.untrusted_in_words().contains("your own folders"));
    assert_eq!(first.review_command(), "shelly-host config trust", "there is no config to check");
    first.keep().unwrap();
    for project in ["one", "two"] {
        assert!(world.standing_with_own_plugin(project, "bytes").is_trusted(), "{project}");
    }
    assert!(!world.standing_with_own_plugin("two", "other bytes").is_trusted(), "another digest");
    // Consent of an earlier version, which was stored with a project, holds there.
    let line = line.to_owned();
    let other = TrustStore::new(Some(world.folder.path().join("state/earlier.json")));
    other.change(&world.folder.path().join("one"), |kept| kept.facts = [line].into_iter().collect()).unwrap();
    fs::rename(world.folder.path().join("state/earlier.json"), world.folder.path().join("state/trust.json")).unwrap();
    let earlier = world.standing_with_own_plugin("one", "bytes");
    assert!(earlier.is_trusted() && earlier.gone().is_empty(), "{earlier:?}");
    assert!(!world.standing_with_own_plugin("two", "bytes").is_trusted());
}

#[test]
fn changed_instructions_are_shown_even_for_named_config() {
    let world = World::new();
    let write = |name: &str, text: &str| fs::write(world.layout().root().join(name), text).unwrap();
    write("CLAUDE.md", "one\ntwo\n");
    write(".shelly/context.md", "context");
    let first = world.standing("", false).unwrap();
    assert!(first.is_trusted() && first.changed_instructions().is_empty(), "nothing to compare with");
    first.keep_first_instructions(false);
    assert!(world.standing("", false).unwrap().seen.is_none(), "they were not used");
    first.keep_first_instructions(true);
    write("CLAUDE.md", "one\nthree\n");
    write(".cursorrules", "new");
    for is_named in [false, true] {
        let changed = world.standing("", is_named).unwrap();
        let facts: Vec<_> = lines(changed.new_facts());
        let paths = facts.iter().map(|fact| fact.split(" for agents: sha256:").next().unwrap());
        assert_eq!(paths.collect::<Vec<_>>(), ["the instructions `.cursorrules`", "the instructions `CLAUDE.md`"]);
        assert_eq!(
            changed.changed_instructions(),
            [
                "--- CLAUDE.md\n+++ CLAUDE.md\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n"
                    .replace("-two\n", "-two\n\\ No newline at end of file\n"),
                "--- /dev/null\n+++ .cursorrules\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n".into(),
            ]
        );
        changed.keep_first_instructions(true);
        assert!(!world.standing("", is_named).unwrap().is_trusted(), "to use them is not to have seen them");
    }
    world.standing("", false).unwrap().keep().unwrap();
    assert!(world.standing("", false).unwrap().is_trusted() && world.standing("", true).unwrap().is_trusted());
    write("CLAUDE.md", "one\ntwo\n");
    assert!(world.standing("", false).unwrap().is_trusted(), "asked once about each content, as when branches change");
    fs::remove_file(world.layout().root().join("CLAUDE.md")).unwrap();
    assert!(world.standing("", false).unwrap().is_trusted(), "less is said");
    // In a new project with other facts to ask about, the instructions are listed with those.
    world.store().forget(world.layout().root()).unwrap();
    let asked = world.standing(ONE, false).unwrap();
    assert_eq!(asked.new_facts().len(), 3, "{:?}", lines(asked.new_facts()));
}

#[test]
fn too_many_instruction_files_are_one_line() {
    let files: Vec<_> = (0..=limits::FACTS_SHOWN / 2).map(|n| InstructionFile::new(format!("{n}"), "")).collect();
    let all: Vec<_> = files.iter().collect();
    assert_eq!(instruction_facts(&all[1..]).len(), limits::FACTS_SHOWN / 2);
    let one = instruction_facts(&all);
    assert!(one.len() == 1 && lines(&one)[0].contains("`0` and 100 more: sha256:"), "{one:?}");
    let changed = InstructionFile::new("0", "x");
    let other = [&all[1..], &[&changed]].concat();
    assert_ne!(one, instruction_facts(&other), "what is in each counts");
}

#[test]
fn foreign_permissions_need_consent_even_for_named_config() {
    let world = World::new();
    world.allow(
        r#"{"trusted_tools": ["p/b"], "fs_directories": ["/x"], "trusted_commands": ["git\u001b"],
        "trusted_domains": ["a.example"], "later": [1]}"#,
    );
    for is_named in [false, true] {
        assert_eq!(
            lines(world.standing("", is_named).unwrap().new_facts()),
            [
                "permissions: `/x` may be read and changed",
                "permissions: the program `git\\u{1b}` may be run",
                "permissions: the server `a.example` may be contacted",
                "permissions: the tool `p/b` may be called without asking you",
            ]
        );
    }
    world.standing(ONE, true).unwrap().keep().unwrap();
    assert!(world.standing("", true).unwrap().is_trusted());
    assert!(!world.standing(ONE, false).unwrap().is_trusted(), "nobody was asked about that");
    // A removed line is not trusted when it comes back.
    world.allow("{}");
    assert!(world.standing("", true).unwrap().is_trusted());
    world.allow(r#"{"fs_directories": ["/x"]}"#);
    world.standing("", true).unwrap();
    world.allow(r#"{"fs_directories": ["/x"], "trusted_tools": ["p/b"]}"#);
    let again = world.standing("", true).unwrap();
    assert!(again.new_facts().lines().any(|line| line.contains("`p/b`")), "{again:?}");
    // Permissions at their former path need consent, too.
    fs::rename(world.layout().permissions(), world.layout().legacy_permissions()).unwrap();
    assert!(!world.standing("", true).unwrap().is_trusted());
}

#[tokio::test]
async fn trusted_tool_stays_trusted_in_next_run() {
    let world = World::new();
    let old = r#"{"trusted_tools": ["fetch", "p/b"], "trusted_commands": ["git"], "later": [1]}"#;
    fs::write(world.layout().legacy_permissions(), old).unwrap();
    let first = world.standing("", true).unwrap();
    first.keep().unwrap();
    // Two processes; the second does not know what the first one stores.
    for name in ["a", "c"] {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, first.trusted().unwrap());
        let mut inbox = broker.attend().unwrap();
        let cx = RunCx::new("ada");
        let person = async {
            let asked = inbox.next().await.unwrap();
            inbox.decide(asked.id, Verdict::Trust).unwrap();
        };
        let (ruling, ()) = tokio::join!(broker.permit(&cx, tool(name), "{}"), person);
        assert_eq!(ruling.unwrap().verdict, Verdict::Trust);
    }
    let again = world.standing("", true).unwrap();
    assert!(again.is_trusted(), "what the person wrote here is not somebody else's: {again:?}");
    let trusted = again.trusted().unwrap();
    assert!(["a", "c"].iter().all(|name| trusted.contains(&tool(name))));
    assert!(!trusted.contains(&tool("b")), "nobody has such a plugin");
    let PermissionSubject::Tool { agent, origin, name, digest } = tool("a") else { unreachable!("it is a tool") };
    let of = |agent: &str, digest: &str| PermissionSubject::Tool {
        agent: agent.into(),
        origin: origin.clone(),
        name: name.clone(),
        digest: digest.into(),
    };
    assert!(trusted.contains(&of(&agent, &digest)));
    assert!(!trusted.contains(&of("bob", &digest)) && !trusted.contains(&of(&agent, "other bytes")));
    let kept = ProjectPermissions::load(&world.layout()).unwrap();
    assert_eq!(kept.trusted_tools, ["fetch", "p/b", "p/a", "p/c"]);
    assert_eq!(kept.trusted_commands, ["git"]);
    assert!(kept.other.contains_key("later"));
    // A tool of the same name with another digest replaces the trusted one.
    ProjectTrustWriter { layout: world.layout(), store: world.store() }.keep(&of(&agent, "new bytes")).unwrap();
    let (of_old, of_new) = (of(&agent, &digest), of(&agent, "new bytes"));
    let now = world.standing("", true).unwrap().trusted().unwrap();
    assert!(now.contains(&of_new) && !now.contains(&of_old), "{origin}/{name}");
    // The line is removed from the permissions by hand.
    world.allow(r#"{"trusted_tools": ["p/c"]}"#);
    let now = world.standing("", true).unwrap().trusted().unwrap();
    assert!(now.contains(&tool("c")) && !now.contains(&of_new));
}

#[tokio::test]
async fn trusted_program_stays_trusted_in_next_run() {
    let world = World::new();
    let first = world.standing("", true).unwrap();
    let (git, reading) = (PermissionSubject::Program { name: "git".into() }, PermissionSubject::GitReading);
    assert!(!first.trusted().unwrap().contains(&git));
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, first.trusted().unwrap());
    let mut inbox = broker.attend().unwrap();
    for subject in [&git, &reading, &git] {
        let cx = RunCx::new("ada");
        let person = async {
            if !broker.trusts(subject) {
                let asked = inbox.next().await.unwrap();
                inbox.decide(asked.id, Verdict::Trust).unwrap();
            }
        };
        tokio::join!(broker.permit(&cx, subject.clone(), ""), person).0.unwrap();
    }
    assert_eq!(ProjectPermissions::load(&world.layout()).unwrap().trusted_commands, ["git", "git (reading)"]);
    let again = world.standing("", true).unwrap();
    assert!(again.is_trusted(), "the person wrote it here: {again:?}");
    let trusted = again.trusted().unwrap();
    assert!(trusted.contains(&git) && trusted.contains(&reading));
    // The permissions of another project need consent first.
    world.allow(r#"{"trusted_commands": ["git", "rm", "git (reading)"]}"#);
    let brought = world.standing("", true).unwrap();
    assert_eq!(lines(brought.new_facts()), ["permissions: the program `rm` may be run"]);
    world.allow(r#"{"trusted_commands": ["git"]}"#);
    let less = world.standing("", true).unwrap();
    assert!(less.is_trusted() && !less.trusted().unwrap().contains(&reading));
}

#[test]
fn unusable_permissions_file_is_reported_and_kept() {
    let world = World::new();
    fs::remove_dir(world.layout().local()).unwrap();
    let fresh = world.standing("", false).unwrap();
    assert!(!fresh.trusted().unwrap().contains(&tool("a")), "there is nothing");
    assert!(!world.layout().local().exists() && fs::read_dir(world.folder.path()).unwrap().count() == 1);
    fs::create_dir(world.layout().local()).unwrap();
    let kept = ProjectTrustWriter { layout: world.layout(), store: world.store() };
    for (text, says) in
        [("{", "are damaged: EOF while parsing"), (r#"{"trusted_tools": "all"}"#, "are damaged: invalid type")]
    {
        world.allow(text);
        let report = world.standing("", false).unwrap_err();
        assert!(report.to_string().contains(says) && report.hint.is_some(), "{says}: {report}");
        assert!(kept.keep(&tool("x")).is_err());
        assert_eq!(fs::read_to_string(world.layout().permissions()).unwrap(), text);
    }
    assert_eq!(world.store().of(world.layout().root()).unwrap(), ProjectTrust::default());
    // More entries than a person can review.
    let subjects = 0..=limits::TRUSTED_SUBJECTS;
    let names: Vec<_> = subjects.map(|at| format!("t{at}")).collect();
    let allowed: Vec<_> = names.iter().map(|name| format!("p/{name}")).collect();
    world.allow(&serde_json::json!({ "trusted_tools": allowed }).to_string());
    let known =
        |name: &String| TrustedTool { agent: "ada".into(), origin: "p".into(), name: name.clone(), digest: "d".into() };
    let answer = |answered: &mut ProjectTrust| answered.tools = names.iter().map(known).collect();
    world.store().change(world.layout().root(), answer).unwrap();
    let report = world.standing("", true).unwrap().trusted().unwrap_err();
    assert!(report.to_string().contains("more than 1024 trusted subjects") && report.hint.is_some(), "{report}");
}
