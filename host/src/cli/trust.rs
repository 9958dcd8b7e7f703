//! Shows the person what the files of a project name, and asks for consent before it is acted on.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::{
    ask::{self, Consent, ConsentPrompt},
    config_path::{config_path, read_config},
    host_environment::{compiling, environment, plugin_dirs},
    render::{self, DIM, PLAIN, RunOutputFormat, escaped, name, print, print_prose, tell, tell_prose, warn},
    trust_list::{listed, shown},
};
use crate::{
    app::{App, ProjectTrustStatus, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    config::Config,
    error::{ErrorKind, Report, cut},
    limits,
    mcp::TokenStore,
    session::{Authorship, SessionError, SessionReview, SessionStore},
    trust::{TrustFacts, TrustStore, UserKey},
};

/// Trust what the files of this project name, or withdraw that trust.
///
/// A project may have been written by somebody else. Its config and permissions are therefore not used before you trust
/// what they name: addresses, keys of your environment that are sent there, plugins, and their grants. This command lists
/// these things and asks you. Your answer is stored for this folder until one of the things changes. Plugins in your own
/// folders are asked about once, for all projects.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host config trust
  shelly-host config trust --forget

A config named with --config, and plugins named with --plugins, need no consent.")]
pub struct ConfigTrustArgs {
    /// Trust everything that is listed, without asking.
    #[arg(long)]
    yes: bool,
    /// Withdraw your trust in this project. What you have accepted of your own plugins stays.
    #[arg(long, conflicts_with = "yes")]
    forget: bool,
    /// The project's config file. It needs no consent because you name it; you are asked only about the project's permissions.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders that the run will name too; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
}

impl ConfigTrustArgs {
    pub fn execute(self) -> u8 {
        let done = if self.forget { self.forget() } else { self.decide() };
        done.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    fn decide(&self) -> Result<(), Report> {
        let config = read_config(self.config.as_ref())?;
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let app = App::new(config, plugin_dirs(&self.plugins), compiling(), environment(), broker)?;
        // The digest of a trusted MCP tool depends on the approvals of its server.
        let standing = app.with_approvals(store(), false).standing(&store(), self.config.is_some())?;
        let facts = standing.facts();
        if facts.is_empty() {
            return print(&match &self.config {
                Some(path) => format!(
                    "{} needs no consent because you named it, and the project's permissions name nothing",
                    name(&path.display().to_string())
                ),
                None => "the files of this project name nothing that needs your consent".into(),
            });
        }
        let (own, of_project) = by_owner(&standing, &facts);
        let mark = |line: &str| if standing.new_facts().contains(line) { "+" } else { " " };
        let gone = listed(&standing.gone(), |_| "-");
        let changed = changed_instructions(&standing);
        let lines = changed.lines().map(str::to_owned).chain(listed(&of_project, mark)).chain(gone);
        let head = (!own.is_empty()).then(|| format!("{OWN_PLUGINS}:"));
        let lines = lines.chain(head).chain(listed(&own, mark));
        print_prose(&lines.map(|line| format!("{line}\n")).collect::<String>())?;
        if standing.is_trusted() {
            return print("trusted");
        }
        if !self.yes {
            if !ask::is_attended() {
                return Err(refused(&standing).hint("trust without asking with --yes"));
            }
            check_length(&standing)?;
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let runtime =
                runtime.map_err(|error| Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error))?;
            match runtime.block_on(ask::trust("", ConsentPrompt::YesOrNo)) {
                Consent::Yes => {}
                Consent::Once | Consent::No => return Err(declined(&standing)),
            }
        }
        standing.keep()?;
        print("trusted from now on")
    }

    fn forget(self) -> Result<(), Report> {
        // This works whatever is wrong with the config.
        let root = config_path(self.config).and_then(|path| Config::root_of(&path).ok());
        let was_trusted = store().forget(&root.unwrap_or_default()).map_err(|error| error.report())?;
        print(if was_trusted { "trust withdrawn" } else { "this project was not trusted" })
    }
}

/// Returns the store of the person's consent, in the person's own data, which no project can reach.
pub fn store() -> TrustStore {
    TrustStore::new(kept("trust.json"))
}

/// Returns the key that marks the sessions of this person.
pub fn own_key() -> UserKey {
    UserKey::new(kept("session.key"))
}

/// Returns the store of logins at MCP servers.
pub fn logins() -> Option<TokenStore> {
    kept("mcp").map(TokenStore::in_folder)
}

/// Returns the path of a file in the person's own data; `None` if no directory for it is set.
pub fn kept(name: &str) -> Option<PathBuf> {
    let set = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // A relative path would lie in the project.
        value.filter(|path| path.is_absolute())
    };
    let home = || set("HOME").map(|home| home.join(".local/state"));
    let base = set("XDG_STATE_HOME").or_else(home).or_else(|| set("LOCALAPPDATA"));
    base.map(|base| base.join("shelly-host").join(name))
}

/// Asks the person about new facts, unless consent for this run is `given`. Returns the subjects that are then trusted
/// without a question.
pub async fn admitted(
    standing: &ProjectTrustStatus,
    given: bool,
    is_attended: bool,
) -> Result<TrustedSubjects, Report> {
    if !standing.is_trusted() && !given {
        if !is_attended {
            return Err(refused(standing));
        }
        ask(standing, async |question| ask::trust(&question, ConsentPrompt::WithOnce).await).await?;
    }
    standing.keep_first_instructions(standing.is_trusted());
    standing.trusted()
}

/// Checks that all facts are trusted, or that consent is `given`, where nobody can be asked.
pub fn check(standing: &ProjectTrustStatus, given: bool) -> Result<(), Report> {
    if standing.is_trusted() || given { Ok(()) } else { Err(refused(standing)) }
}

/// Asks the person about a session that another person may have made, unless consent to resume it is `given`.
pub async fn admit_session(
    store: &SessionStore,
    recording: &mut Recording,
    given: bool,
    is_attended: bool,
) -> Result<(), Report> {
    let Recording::Existing { id, is_trusted, .. } = recording else { return Ok(()) };
    if given {
        *is_trusted = true;
        return Ok(());
    }
    let review = store.review(id).map_err(|error| error.report())?;
    if review.authorship().is_own() {
        return Ok(());
    }
    if !is_attended {
        return Err(not_own(store, id, review.authorship()));
    }
    let answer =
        ask_about(store, id, &review, async |question| ask::trust(&question, ConsentPrompt::GoOn).await).await?;
    *is_trusted = answer == SessionConsent::ThisRun;
    Ok(())
}

/// A person's consent to resume a session.
#[derive(Debug, PartialEq, Eq)]
enum SessionConsent {
    /// The session was marked as the person's own, up to the content that was shown.
    Marked,
    /// The consent covers this run, whatever the session contains.
    ThisRun,
}

fn not_own(store: &SessionStore, id: &str, authorship: Authorship) -> Report {
    SessionError::NotOwn { id: id.to_owned(), has_key: store.has_key(), authorship }.report()
}

async fn ask_about(
    store: &SessionStore,
    id: &str,
    review: &SessionReview,
    put: impl AsyncFnOnce(String) -> Consent,
) -> Result<SessionConsent, Report> {
    let what = match review.authorship() {
        Authorship::Altered { line } => {
            format!("was changed since you wrote it: line {line} of its journal and the rest may be written by others")
        }
        Authorship::FirstLine => {
            "was started by you with an earlier release, whose mark covers only its first line: the rest may be written by others"
                .into()
        }
        _ => "was not made here by you; it may have come with the project".into(),
    };
    let shown = format!(
        "the session {} {what}\n  resuming executes its pending tool calls and relies on its recorded conversation\n",
        name(id)
    );
    match put(shown).await {
        Consent::Yes => match store.accept(review) {
            Ok(()) => Ok(SessionConsent::Marked),
            Err(error @ SessionError::ChangedSinceReview { .. }) => Err(error.report()),
            Err(error) => {
                warn(&format!("the session is trusted for this run only: {}", error.report()));
                Ok(SessionConsent::ThisRun)
            }
        },
        Consent::Once => Ok(SessionConsent::ThisRun),
        Consent::No => Err(not_own(store, id, review.authorship())),
    }
}

async fn ask(standing: &ProjectTrustStatus, put: impl AsyncFnOnce(String) -> Consent) -> Result<(), Report> {
    check_length(standing)?;
    match put(question(standing)).await {
        // Consent that cannot be stored still holds for this run.
        Consent::Yes => standing
            .keep()
            .unwrap_or_else(|report| warn(&format!("the project is trusted for this run only: {report}"))),
        Consent::Once => {}
        Consent::No => return Err(declined(standing)),
    }
    Ok(())
}

/// The words for plugins in the person's own folders, which are no project's.
const OWN_PLUGINS: &str = "plugins in your own folders need your consent, once for all projects";

/// Splits facts into those about the person's own plugins and those about the project.
fn by_owner(standing: &ProjectTrustStatus, facts: &TrustFacts) -> (TrustFacts, TrustFacts) {
    let (mut own, mut of_project) = (facts.clone(), facts.clone());
    own.retain(|line| standing.is_own(line));
    of_project.retain(|line| !standing.is_own(line));
    (own, of_project)
}

fn question(standing: &ProjectTrustStatus) -> String {
    let (own, of_project) = by_owner(standing, standing.new_facts());
    let new = |facts: &TrustFacts| -> String {
        listed(facts, |_| "+").into_iter().map(|line| format!("  {line}\n")).collect()
    };
    let mut question = String::new();
    if !of_project.is_empty() {
        let gone = listed(&standing.gone(), |_| "-").into_iter().take(limits::FACTS_SHOWN);
        let gone: String = gone.map(|line| format!("  {DIM}{line}{PLAIN}\n")).collect();
        let what = match standing.was_trusted() {
            false => "the files of this project name what needs your consent",
            true => "the files of this project have changed: new (+) and removed (-)",
        };
        question = format!("{what}:\n{}{}{gone}", changed_instructions(standing), new(&of_project));
    }
    if !own.is_empty() {
        question.push_str(&format!("{OWN_PLUGINS}:\n{}", new(&own)));
    }
    question
}

/// Formats the changes of instruction files, up to as many lines as a person can review.
fn changed_instructions(standing: &ProjectTrustStatus) -> String {
    let changed = standing.changed_instructions();
    let mut lines = changed.iter().flat_map(|change| change.lines());
    let shown = lines.by_ref().take(limits::INSTRUCTIONS_LINES);
    let shown: String = shown.map(|line| format!("  {}\n", cut(&escaped(line), limits::DIFF_LINE_CHARS))).collect();
    match lines.count() {
        0 => shown,
        more => format!("{shown}  [{more} more lines are not shown; read the files]\n"),
    }
}

/// Refuses to ask about more facts than can be shown.
fn check_length(standing: &ProjectTrustStatus) -> Result<(), Report> {
    if standing.new_facts().can_be_shown() {
        return Ok(());
    }
    let (count, most, chars) = (standing.new_facts().len(), limits::FACTS_SHOWN, limits::FACT_CHARS);
    let what = format!("{count} entries; at most {most} of at most {chars} characters each can be shown");
    let (own, of_project) = by_owner(standing, standing.new_facts());
    let whose = match (own.is_empty(), of_project.is_empty()) {
        (false, true) => "your own folders contain",
        (true, _) => "the files of this project name",
        (false, false) => "the files of this project and your own folders name",
    };
    let then = match standing.has_config() {
        true => "then name the config with --config",
        false => "then trust it with `shelly-host config trust --yes`",
    };
    Err(Report::new(ErrorKind::Usage, format!("{whose} more than one question can show"))
        .cause(what)
        .hint(format!("review everything with `{}`, {then}", standing.review_command())))
}

fn refused(standing: &ProjectTrustStatus) -> Report {
    let (new, gone) = (standing.new_facts(), standing.gone());
    let (own, of_project) = by_owner(standing, new);
    let things = if new.len() == 1 { "one entry".into() } else { format!("{} entries", new.len()) };
    let of_them = match own.len() {
        0 => String::new(),
        _ if of_project.is_empty() => "; your yes holds for all projects".into(),
        own => format!(", {own} of them about plugins in your own folders"),
    };
    let report = Report::new(ErrorKind::Usage, standing.untrusted_in_words());
    let report = report.cause(format!("{things} without your consent{of_them}"));
    let whole = |facts: &TrustFacts, mark: &str| -> Vec<String> {
        let lines = facts.groups().into_iter().flat_map(|group| group.lines);
        lines.map(|one| format!("{mark} {}", shown(&one))).collect()
    };
    let lines = [whole(&of_project, "+"), whole(&gone, "-"), whole(&own, "+")].into_iter().flatten();
    let report = lines.take(limits::FACTS_TOLD).fold(report, |report, line| report.cause(line));
    let beyond = (new.len() + gone.len()).saturating_sub(limits::FACTS_TOLD);
    let report = if beyond > 0 { report.cause(format!("and {beyond} more")) } else { report };
    report.hint(match standing.has_config() {
        true => {
            "review everything with `shelly-host config check`; trust it with `shelly-host config trust`, or only for this \
             run with --trust"
        }
        // There is nothing to check.
        false => {
            "review everything with `shelly-host config trust`, which then asks you; or trust it only for this run with --trust"
        }
    })
}

/// Reports that the person refused consent.
fn declined(standing: &ProjectTrustStatus) -> Report {
    let hint = format!(
        "to be asked again, repeat the command; to see what is asked about, use `{}`",
        standing.review_command()
    );
    let whose = if standing.is_about_own_alone() { "plugins in your own folders" } else { "the files of this project" };
    Report::new(ErrorKind::Usage, format!("{whose} are not trusted")).cause("you declined").hint(hint)
}

/// Prints the state of trust on standard error, for a person who checks the config.
pub fn tell_standing(standing: &ProjectTrustStatus, path: &Path) {
    let path = name(&path.display().to_string());
    match (standing.facts().is_empty(), standing.is_trusted()) {
        (true, _) => {}
        (false, true) => tell(&format!("{DIM}{path}: trusted{PLAIN}\n")),
        (false, false) => {
            let lines = listed(standing.new_facts(), |_| "+").into_iter().map(|line| format!("  {line}\n"));
            tell_prose(&format!("not trusted yet; a run asks you first:\n{}", lines.collect::<String>()));
        }
    }
}

/// Returns the state of trust as JSON.
pub fn standing_json(standing: &ProjectTrustStatus) -> Value {
    let facts = standing.facts();
    json!({
        "trusted": standing.is_trusted(),
        "digest": facts.digest(),
        "facts": facts,
        "new": standing.new_facts(),
        "gone": standing.gone(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::session::NewSession;

    fn standing(config: &str, folder: &Path) -> ProjectTrustStatus {
        let store = TrustStore::new(Some(folder.join("state/trust.json")));
        let config = Config::parse(config, folder.into()).unwrap_or_else(|report| panic!("{report}"));
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        App::new(config, &[], None, Arc::new(|_| None), broker).unwrap().standing(&store, false).unwrap()
    }

    fn config(host: &str) -> String {
        format!("providers: [{{name: m, kind: openai, model: m, base_url: 'http://{host}'}}]")
    }

    #[tokio::test]
    async fn project_consent_holds_once_or_from_now_on() {
        let folder = tempfile::tempdir().unwrap();
        let of = |host: &str| standing(&config(host), folder.path());
        for (host, consent, is_kept) in [
            ("one.example", Consent::No, false),
            ("one.example", Consent::Once, false),
            ("one.example", Consent::Yes, true),
            ("two.example", Consent::No, false),
        ] {
            let mut asked = String::new();
            let standing = of(host);
            let asking = ask(&standing, async |question| {
                asked = question;
                consent
            });
            let admitted = asking.await;
            assert_eq!(admitted.is_ok(), consent != Consent::No);
            if let Err(report) = admitted {
                assert_eq!(report.causes, ["you declined"], "what was shown is not shown again");
            }
            assert!(asked.contains(&format!("  + the model `m` is at `http://{host}`")), "{asked}");
            assert_eq!(asked.contains("- the model `m` is at `http://one.example`"), host == "two.example", "{asked}");
            assert_eq!(of(host).is_trusted(), is_kept, "{host}, {consent:?}");
        }
        assert!(of("one.example").is_trusted(), "who says no to a change has not taken back the rest");
    }

    #[tokio::test]
    async fn foreign_session_consent_holds_once_or_from_now_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = |key: Option<&str>| {
            crate::app::sessions(folder.path(), UserKey::new(key.map(|key| folder.path().join(key))))
        };
        std::fs::create_dir_all(folder.path().join(".shelly/local")).unwrap();
        let theirs = store(Some("theirs"));
        drop(theirs.create(NewSession { id: Some("s".into()), ..NewSession::default() }).unwrap());
        let of = |id: &str| Recording::Existing { id: id.into(), up_to_damage: false, is_trusted: false };
        let goes_on = async |store: &SessionStore, given| {
            let mut recording = of("s");
            let admitted = admit_session(store, &mut recording, given, false).await;
            let is_trusted = matches!(recording, Recording::Existing { is_trusted: true, .. });
            assert_eq!(is_trusted, given, "nobody is there to be asked");
            admitted.is_ok()
        };
        let mine = store(Some("mine"));
        for (consent, is_kept) in [(Consent::No, false), (Consent::Once, false), (Consent::Yes, true)] {
            assert!(!goes_on(&mine, false).await && goes_on(&mine, true).await);
            let review = mine.review("s").unwrap();
            let asked = ask_about(&mine, "s", &review, async |question| {
                assert!(question.contains("the session s was not made here by you"), "{question}");
                consent
            });
            assert_eq!(asked.await.is_ok(), consent != Consent::No);
            assert_eq!(goes_on(&mine, false).await, is_kept, "{consent:?}");
        }
        assert!(!goes_on(&theirs, false).await, "it has one mark");
        // Consent that cannot be stored holds once.
        let nowhere = store(None);
        let review = nowhere.review("s").unwrap();
        let accepted = ask_about(&nowhere, "s", &review, async |_| Consent::Yes).await.unwrap();
        assert_eq!(accepted, SessionConsent::ThisRun);
        assert!(!goes_on(&nowhere, false).await && goes_on(&nowhere, true).await);
        let refused = not_own(&nowhere, "s", Authorship::Unmarked).to_string();
        assert!(refused.contains("XDG_STATE_HOME"), "{refused}");
        assert!(admit_session(&mine, &mut Recording::Off, false, false).await.is_ok());
    }

    #[tokio::test]
    async fn too_many_facts_are_refused_without_asking() {
        let folder = tempfile::tempdir().unwrap();
        let long = standing(&config(&"x".repeat(limits::FACT_CHARS)), folder.path());
        let provider = |at| format!("{{name: m{at}, kind: openai, model: m}}");
        let many: Vec<_> = (0..=limits::FACTS_SHOWN).map(provider).collect();
        let many = standing(&format!("providers: [{}]", many.join(", ")), folder.path());
        for standing in [long, many] {
            let report = ask(&standing, async |_| panic!("it is asked")).await.unwrap_err();
            assert!(report.message.contains("more than one question can show"), "{report}");
        }
    }
}
