//! The file of `--bundle`: everything that whoever helps needs to know, without credentials, prompts and conversations.
//!
//! Nothing is copied as it is. The config goes through [`ShareableConfig`], of a session only kinds and sizes are written, and at
//! the end known credentials and the home folder are removed from the whole text.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use super::{
    doctor_context::DoctorContext,
    doctor_output::{FORMAT, finding_as_text},
    finding::DoctorFinding,
};
use crate::{
    agent::journal::JournalRecord,
    app,
    cli::{
        build_info::BUILD,
        plugin::catalog_of,
        render::{escaped, name, one_line, size},
        trust,
    },
    config::{Config, ShareableConfig},
    error::{ErrorKind, Report, count, without_number},
    files, limits,
    plugin::CatalogEntry,
    session::{JournalLine, JournalLineContent, SessionStore},
};

/// Refuses a file that is there, or whose folder is not.
pub fn check_new(path: &Path) -> Result<(), Report> {
    if path.symlink_metadata().is_ok() {
        return Err(there_already(path));
    }
    let folder = files::folder_of(path);
    match folder.is_dir() {
        true => Ok(()),
        false => Err(not_written(path).cause(format!("there is no folder {}", name(&folder.display().to_string())))),
    }
}

/// Writes the report into a new file, which only its owner may read.
pub fn write_bundle(path: &Path, context: &DoctorContext, findings: &[DoctorFinding]) -> Result<(), Report> {
    match files::create(path, bundle(context, findings).as_bytes()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(there_already(path)),
        Err(error) => Err(not_written(path).cause(without_number(&error.to_string()))),
    }
}

fn there_already(path: &Path) -> Report {
    let what = format!("the file {} is there already, and is not replaced", name(&path.display().to_string()));
    Report::new(ErrorKind::Usage, what).hint("remove it, or name another file with --bundle")
}

fn not_written(path: &Path) -> Report {
    Report::new(ErrorKind::Usage, format!("cannot write {}", name(&path.display().to_string())))
        .hint("name another file with --bundle")
}

/// Returns the text of the report.
fn bundle(context: &DoctorContext, findings: &[DoctorFinding]) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let sections = [
        ("versions", versions()),
        ("findings", findings.iter().map(|finding| format!("{}\n", finding_as_text(finding))).collect()),
        ("config", config(context.path.as_deref())),
        ("user-wide config", config(context.user_path.as_deref())),
        ("plugins", plugins(context)),
        ("newest session", newest_session(&app::sessions(&context.root(), trust::own_key()))),
    ];
    let mut text = format!("shelly-host report, format {FORMAT}, written {now}\n");
    for (title, section) in sections {
        let _ = write!(text, "\n== {title}\n{}\n", section.trim_end());
    }
    without_home(&escaped(&text), std::env::var("HOME").ok().as_deref())
}

/// Replaces the home folder, whose path holds a person's name.
fn without_home(text: &str, home: Option<&str>) -> String {
    match home.map(|home| home.trim_end_matches('/')).filter(|home| home.len() > 1) {
        Some(home) => text.replace(home, "~"),
        None => text.to_owned(),
    }
}

fn versions() -> String {
    [vec![format!("shelly-host {}", BUILD.version)], BUILD.lines()].concat().join("\n")
}

fn config(path: Option<&Path>) -> String {
    let Some(path) = path else { return "there is none".into() };
    let content = match ShareableConfig::read(path).content {
        Some(content) => serde_json::to_string_pretty(&content).unwrap_or_default(),
        None => "it cannot be read as YAML, so its text is left out".into(),
    };
    format!("{}\n{content}", path.display())
}

fn plugins(context: &DoctorContext) -> String {
    let none = Config::default();
    let catalog = match catalog_of(context.config().unwrap_or(&none), &context.named_dirs) {
        Ok(catalog) => catalog,
        Err(report) => return report.to_string(),
    };
    let line = |(id, plugin): (&str, &CatalogEntry)| match (plugin.written_manifest(), plugin.sealed()) {
        (Some(manifest), Some(component)) => {
            let kinds: Vec<_> = manifest.kinds.iter().map(|kind| kind.name()).collect();
            let (version, digest) = (name(&manifest.version), component.digest);
            format!("{id} {version} [{}] {} {digest}\n", kinds.join(", "), size(component.size))
        }
        (None, Some(component)) => {
            format!("{id} without plugin.toml {} {}\n", size(component.size), component.digest)
        }
        (_, None) => format!("{} cannot be read\n", name(id)),
    };
    let lines: String = catalog.iter().map(line).collect();
    if lines.is_empty() { "there is none".into() } else { lines }
}

/// Describes the newest session: what kinds of lines its journal has, when they were written, and how long they are.
fn newest_session(store: &SessionStore) -> String {
    let Some(newest) = store.list(1).ok().and_then(|list| list.into_iter().next()) else {
        return "there is none".into();
    };
    let sizes = format!("{} in all, {} of them journal", size(newest.bytes), size(newest.journal_bytes));
    let journal = match (&newest.content, store.read(&newest.id)) {
        (Ok(_), Ok(journal)) => journal,
        _ => return format!("{}: it cannot be read; {sizes}", name(&newest.id)),
    };
    let header = journal.header();
    let begun = header.created.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let (host, parts) = (name(&header.host), header.parts.len() as u64);
    let mut text = format!("{}: {sizes}, begun by {host} with {}\n", name(&newest.id), count(parts, "part", "parts"));
    let (mut kinds, mut lines, mut left_out) = (BTreeMap::<String, u64>::new(), VecDeque::new(), 0);
    for line in journal {
        // An error names the line, and quotes what is in its place: that is not for others.
        let Ok(line) = line else {
            lines.push_back("the lines after this one cannot be read".to_owned());
            break;
        };
        let (kind, shape) = shape(&line);
        *kinds.entry(kind).or_default() += 1;
        lines.push_back(format!("line {} at {} ms, run {}: {shape}", line.n, line.t.saturating_sub(begun), line.run));
        if lines.len() > limits::DOCTOR_SESSION_LINES {
            lines.pop_front();
            left_out += 1;
        }
    }
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let _ = writeln!(text, "{}", kinds.join(", "));
    if left_out > 0 {
        let _ = writeln!(text, "{} before these are left out", count(left_out, "line", "lines"));
    }
    text + &lines.make_contiguous().join("\n")
}

/// Returns the kind of a line, and its shape: the kind with the sizes of its texts, and numbers.
fn shape(line: &JournalLine) -> (String, String) {
    match &line.what {
        JournalLineContent::Record(record) => {
            let value = serde_json::to_value(record).unwrap_or_default();
            let kind = value["kind"].as_str().unwrap_or("record").to_owned();
            let result = match record {
                JournalRecord::CallEnded { result, .. } if result.is_error => ", an error",
                _ => "",
            };
            let shape = format!("{kind}{result}, {}", shape_of(&value));
            (kind, one_line(&shape, limits::DOCTOR_LINE_CHARS))
        }
        JournalLineContent::Opened { parts, .. } => {
            let shape = format!("opened, with {}", count(parts.len() as u64, "part", "parts"));
            ("opened".into(), shape)
        }
    }
}

/// Returns the shape of a record: the length of all its texts together, and the lengths of its lists.
fn shape_of(record: &Value) -> String {
    fn texts(value: &Value) -> u64 {
        match value {
            Value::String(text) => text.len() as u64,
            Value::Array(list) => list.iter().map(texts).sum(),
            Value::Object(map) => map.values().map(texts).sum(),
            _ => 0,
        }
    }
    let lists = record.as_object().into_iter().flatten();
    let lists = lists.filter_map(|(key, value)| Some(format!(", {key}: {}", value.as_array()?.len())));
    format!("{} of text{}", count(texts(record), "byte", "bytes"), lists.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        agent::journal::Recorder, chat::Message, cli::doctor::finding::UnnamedFinding, session::NewSession,
        trust::UserKey,
    };

    #[test]
    fn existing_file_and_missing_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.txt");
        assert!(check_new(&path).is_ok());
        std::fs::write(&path, "mine").unwrap();
        assert!(check_new(&path).unwrap_err().message.contains("is there already"));
        let dangling = folder.path().join("link");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("nowhere"), &dangling).unwrap();
            assert!(check_new(&dangling).is_err(), "a link could lead to a file of somebody else");
        }
        assert!(check_new(&folder.path().join("none/report.txt")).unwrap_err().to_string().contains("no folder"));
    }

    #[test]
    fn home_folder_is_shown_as_a_tilde() {
        assert_eq!(without_home("/home/ada/x and /home/ada", Some("/home/ada/")), "~/x and ~");
        assert_eq!(without_home("/x", Some("/")), "/x");
        assert_eq!(without_home("/x", None), "/x");
    }

    #[tokio::test]
    async fn session_is_described_without_its_texts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(".shelly/local")).unwrap();
        let store = app::sessions(folder.path(), UserKey::new(None));
        assert_eq!(newest_session(&store), "there is none");
        let new = NewSession { id: Some("s".into()), title: "my private plan".into(), ..NewSession::default() };
        let session = store.create(new).unwrap();
        let message = Message::user("a very private question");
        session.write(1, &JournalRecord::Sent { message });
        session.close().await.unwrap();
        drop(session);
        let text = newest_session(&store);
        assert!(!text.contains("private"), "{text}");
        assert!(text.starts_with("s: ") && text.contains("1 sent"), "{text}");
        assert!(text.contains(": sent, ") && text.contains(" bytes of text"), "{text}");
    }

    #[test]
    fn report_has_all_sections_and_no_control_characters() {
        let finding = UnnamedFinding::note("odd \u{1b}[2J").of_check("config");
        let context = DoctorContext::new(None, Vec::new(), true, false).unwrap_or_else(|report| panic!("{report}"));
        let text = bundle(&context, &[finding]);
        for title in ["== versions", "== findings", "== config", "== plugins", "== newest session"] {
            assert_eq!(text.matches(title).count(), 1, "{text}");
        }
        assert!(text.contains("odd \\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
    }
}
