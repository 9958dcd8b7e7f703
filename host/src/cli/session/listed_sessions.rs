//! Lists sessions: those of one project, or those of all projects of the person.

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::session_project_args::SessionProjectArgs;
use crate::{
    app,
    cli::{
        render::warn,
        session_projects::{SessionProjects, is_foreign, project_in_words},
        trust,
    },
    error::{Report, count},
    limits,
    session::{SessionStore, SessionSummary},
};

/// A part of the sessions, the newest first.
pub struct ListedSessions {
    pub sessions: Vec<ListedSession>,
    /// `true` if there are older sessions.
    pub has_more: bool,
    /// The projects whose sessions are left out, with the reasons.
    pub left_out: Vec<(PathBuf, String)>,
}

/// A session in a list.
pub struct ListedSession {
    pub summary: SessionSummary,
    /// Its project, in a list of several.
    pub project: Option<PathBuf>,
}

impl ListedSessions {
    /// Lists at most `most` sessions of one project.
    pub fn of_project(store: &SessionStore, most: usize) -> Result<Self, Report> {
        let sessions = store.list(most.saturating_add(1)).map_err(|error| error.report())?;
        let sessions = sessions.into_iter().map(|summary| ListedSession { summary, project: None });
        Ok(Self { sessions: sessions.collect(), has_more: false, left_out: Vec::new() }.cut(most))
    }

    /// Lists at most `most` sessions of the project that the command names, and of all others in which this person has some. A
    /// project that is somebody else's, or cannot be read, is left out.
    pub fn of_all_projects(named: &SessionProjectArgs, most: usize) -> Result<Self, Report> {
        let here = named.root()?;
        let here = here.canonicalize().unwrap_or(here);
        let others = SessionProjects::of_person().list();
        let others: Vec<_> = others.into_iter().filter(|project| *project != here).collect();
        let mut all = Self::of_project(&named.store()?, most)?;
        all.sessions.iter_mut().for_each(|session| session.project = Some(here.clone()));
        for project in others {
            match Self::of_other(&project, most) {
                Ok(of_project) => {
                    all.has_more |= of_project.has_more;
                    let sessions = of_project.sessions.into_iter();
                    all.sessions
                        .extend(sessions.map(|session| ListedSession { project: Some(project.clone()), ..session }));
                }
                Err(why) => all.left_out.push((project, why)),
            }
        }
        all.sessions.sort_by_key(|session| Reverse((session.summary.modified, session.summary.id.clone())));
        Ok(all.cut(most))
    }

    fn of_other(project: &Path, most: usize) -> Result<Self, String> {
        if is_foreign(project) {
            return Err("the folder, or that of its sessions, is not yours alone".into());
        }
        let store = app::sessions(project, trust::own_key());
        Self::of_project(&store, most).map_err(|report| report.to_string())
    }

    fn cut(mut self, most: usize) -> Self {
        self.has_more |= self.sessions.len() > most;
        self.sessions.truncate(most);
        self
    }

    /// Warns of the projects whose sessions are left out.
    pub fn warn_of_left_out(&self) {
        let (shown, more) = self.left_out.split_at(self.left_out.len().min(limits::SESSIONS_LEFT_OUT_SHOWN));
        for (project, why) in shown {
            warn(&format!("the sessions of {} are left out: {}", project_in_words(project), why));
        }
        if !more.is_empty() {
            warn(&format!("those of {} are left out, too", count(more.len() as u64, "more project", "more projects")));
        }
    }

    /// Returns the projects whose sessions are left out as JSON.
    pub fn left_out_as_json(&self) -> Value {
        let one =
            |(project, why): &(PathBuf, String)| json!({ "project": project.display().to_string(), "error": why });
        self.left_out.iter().map(one).collect()
    }
}
