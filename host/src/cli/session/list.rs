use std::time::SystemTime;

use clap::Args;
use serde_json::{Value, json};

use super::{
    listed_sessions::{ListedSession, ListedSessions},
    session_project_args::SessionProjectArgs,
    table::table,
    times::{ago, date, when},
};
use crate::{
    chat::Role,
    cli::{
        render::{CliOutputFormat, json_line, name, one_line, print, size, tell, warn},
        session_name::BEGIN,
        session_projects::project_in_words,
    },
    error::{ErrorKind, Report},
    limits,
    session::{SessionSearchHit, SessionSearchResults, SessionStatus, SessionSummary},
};

/// List sessions, the newest first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session list
  shelly-host session list --all --output json | jq -r '.sessions[].id'
  shelly-host session list --all-projects")]
pub struct SessionListArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// The maximum number of entries.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// List all sessions.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Also list your sessions in other projects, with a column for the project.
    #[arg(long)]
    all_projects: bool,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

impl SessionListArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let most = if self.all { limits::SESSIONS } else { self.limit };
        if self.all_projects {
            let listed = ListedSessions::of_all_projects(&self.project, most)?;
            listed.warn_of_left_out();
            return self.print(&listed, || tell(&format!("no project of yours has a session; {BEGIN}\n")));
        }
        let store = self.project.store()?;
        self.print(&ListedSessions::of_project(&store, most)?, || self.project.tell_none(&store))
    }

    /// Prints a list; `tell_none` says that there is nothing in it.
    fn print(&self, listed: &ListedSessions, tell_none: impl FnOnce()) -> Result<u8, Report> {
        let ListedSessions { sessions, has_more, .. } = listed;
        if self.output == CliOutputFormat::Json {
            let sessions: Vec<_> = sessions.iter().map(as_json).collect();
            let mut document = json!({ "sessions": sessions, "more": has_more });
            if self.all_projects {
                document["left_out"] = listed.left_out_as_json();
            }
            print(&json_line(&document))?;
            return Ok(0);
        }
        match (sessions.is_empty(), self.all_projects) {
            (true, _) => {}
            (false, true) => print(&table_with_projects(sessions))?,
            (false, false) => print(&session_table(sessions.iter().map(|session| &session.summary)))?,
        }
        if *has_more {
            tell("older sessions are not shown; show more with --limit N or --all\n");
        } else if sessions.is_empty() {
            tell_none();
        }
        Ok(0)
    }
}

/// The heads of the columns of a list.
const HEADS: [&str; 7] = ["SESSION", "LAST WRITTEN (UTC)", "", "AGENT", "STATUS", "SIZE", "TITLE"];

/// Formats a list of sessions as a table.
pub fn session_table<'a>(sessions: impl IntoIterator<Item = &'a SessionSummary>) -> String {
    let now = SystemTime::now();
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(sessions.into_iter().map(|session| row(session, now)));
    table(&rows)
}

/// Formats a list of sessions of several projects as a table.
fn table_with_projects(sessions: &[ListedSession]) -> String {
    let now = SystemTime::now();
    // The title comes last, since it is the longest.
    let with_project = |[id, written, ago, agent, status, size, title]: [String; 7], project: String| {
        [id, written, ago, agent, status, size, project, title]
    };
    let mut rows = vec![with_project(HEADS.map(str::to_owned), "PROJECT".into())];
    rows.extend(sessions.iter().map(|session| {
        let project = session.project.as_deref().map(project_in_words).unwrap_or_default();
        with_project(row(&session.summary, now), project)
    }));
    table(&rows)
}

fn row(session: &SessionSummary, now: SystemTime) -> [String; 7] {
    let SessionSummary { id, modified, bytes, in_use, content, .. } = session;
    let (agent, status, title) = match content {
        Ok((header, status)) => {
            let status = if *in_use { "in use" } else { word(*status) };
            (one_line(&header.agent, 40), status, one_line(&header.title, 80))
        }
        Err(reason) => ("-".into(), "unreadable", one_line(reason, 200)),
    };
    let written = when(*modified);
    let to_the_minute = written.get(..16).unwrap_or(&written).to_owned();
    [name(id), to_the_minute, ago(*modified, now), agent, status.into(), size(*bytes), title]
}

fn word(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Empty => "empty",
        SessionStatus::Unfinished => "unfinished",
        SessionStatus::Finished => "finished",
        SessionStatus::Failed => "failed",
    }
}

fn as_json(listed: &ListedSession) -> Value {
    let SessionSummary { id, modified, journal_bytes, bytes, in_use, content } = &listed.summary;
    let (header, status, error) = match content {
        Ok((header, status)) => (Some(header), word(*status), None),
        Err(reason) => (None, "unreadable", Some(reason)),
    };
    let mut session = json!({
        "id": id,
        "modified": date(*modified),
        "status": status,
        "in_use": in_use,
        "bytes": bytes,
        "journal_bytes": journal_bytes,
        "agent": header.map(|header| &header.agent),
        "model": header.map(|header| &header.model),
        "title": header.map(|header| &header.title),
        "created": header.and_then(|header| date(header.created)),
        "forked_from": header.and_then(|header| header.forked_from.as_ref()),
        "follows": header.and_then(|header| header.follows.as_ref()),
        "error": error,
    });
    if let Some(project) = &listed.project {
        session["project"] = project.display().to_string().into();
    }
    session
}

/// Search messages and titles for a text, ignoring case, the newest sessions first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session search \"rate limit\"
  shelly-host session search --limit 100 --output json Tokio | jq -r '.found[].id' | sort -u")]
pub struct SessionSearchArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// The maximum number of entries.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
    /// The text to look for.
    #[arg(value_name = "TEXT")]
    text: String,
}

impl SessionSearchArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        if self.text.trim().is_empty() {
            return Err(Report::new(ErrorKind::Usage, "the search text is empty")
                .hint("give a text: shelly-host session search \"rate limit\""));
        }
        let store = self.project.store()?;
        let searched = store.search(&self.text, self.limit.saturating_add(1));
        let SessionSearchResults { mut found, left_out } = searched.map_err(|error| error.report())?;
        if !left_out.is_empty() {
            warn(&told(&left_out));
        }
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        if self.output == CliOutputFormat::Json {
            let row = |found: &SessionSearchHit| {
                let SessionSearchHit { id, title, n, run, role, excerpt } = found;
                json!({ "id": id, "title": title, "n": n, "run": run, "role": role, "excerpt": excerpt })
            };
            let found: Vec<_> = found.iter().map(row).collect();
            let left_out: Vec<_> = left_out.iter().map(|(id, error)| json!({ "id": id, "error": error })).collect();
            print(&json_line(&json!({ "found": found, "more": has_more, "left_out": left_out })))?;
            return Ok(0);
        }
        let mut lines = Vec::new();
        let mut session = None;
        for SessionSearchHit { id, title, n, role, excerpt, .. } in &found {
            if session.replace(id) != Some(id) {
                lines.push(format!("{}  {}", name(id), one_line(title, 80)));
            }
            let who = match role {
                None => "title",
                Some(Role::System) => "system",
                Some(Role::User) => "user",
                Some(Role::Assistant) => "agent",
                Some(Role::Tool) => "result",
            };
            lines.push(format!("  {n:>5}  {who:6}  {}", one_line(&marked(excerpt, &self.text), 500)));
        }
        if !lines.is_empty() {
            print(&lines.join("\n"))?;
        }
        match (has_more, found.is_empty()) {
            (true, _) => tell("more matches are not shown; show more with --limit N\n"),
            (false, true) => {
                let folder = name(&store.folder().display().to_string());
                tell(&format!("no match in the sessions in {folder}\n"));
            }
            _ => {}
        }
        Ok(0)
    }
}

/// Describes the sessions that a search left out, with the first reason.
fn told(left_out: &[(String, Report)]) -> String {
    let shown = limits::SESSIONS_LEFT_OUT_SHOWN;
    let mut names: Vec<_> = left_out.iter().take(shown).map(|(id, _)| name(id)).collect();
    if left_out.len() > shown {
        names.push(format!("{} more", left_out.len() - shown));
    }
    let sessions = if left_out.len() == 1 { "1 session".into() } else { format!("{} sessions", left_out.len()) };
    let why = left_out.first().map(|(_, error)| error.to_string()).unwrap_or_default();
    format!("{sessions} could not be read completely: {}\n{why}", names.join(", "))
}

/// Marks the first match in an excerpt, ignoring case.
fn marked(excerpt: &str, text: &str) -> String {
    // The excerpt has single blanks in place of white space.
    let wanted = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let place = excerpt.char_indices().find_map(|(start, _)| {
        let mut small = String::new();
        excerpt[start..].char_indices().find_map(|(at, c)| {
            small.extend(c.to_lowercase());
            (small == wanted).then(|| (start, start + at + c.len_utf8()))
        })
    });
    match place {
        Some((start, end)) => format!("{}»{}«{}", &excerpt[..start], &excerpt[start..end], &excerpt[end..]),
        None => excerpt.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_match_is_marked_in_excerpt() {
        for (excerpt, text, shown) in [
            ("a Needle here", "needle", "a »Needle« here"),
            ("two  needles", "NEEDLE", "two  »needle«s"),
            ("İ in a Haystack", "a h", "İ in »a H«aystack"),
            ("one line", "one\n  line", "»one line«"),
            ("nothing", "needle", "nothing"),
            ("nothing", "  ", "nothing"),
        ] {
            assert_eq!(marked(excerpt, text), shown);
        }
    }
}
