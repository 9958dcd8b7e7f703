//! The sessions of the project. They are read from the disk, on threads that may block.

use std::collections::VecDeque;

use http::{HeaderValue, StatusCode, header};

use super::{
    problem::{ApiResult, Problem},
    run_routes::json,
    views::{
        SessionAttachmentView, SessionDetailView, SessionMessageView, SessionStateView, SessionView, SessionsView,
        UsageView, cost, shown_time,
    },
};
use crate::{
    chat::{Message, Role},
    digest::Sha256Digest,
    error::cut,
    limits,
    net::http_server::bytes_response,
    serve::hosted_runs::RunHost,
    session::{SessionError, SessionStatus, SessionStore, SessionSummary, Transcript},
};

/// Lists the sessions, at most as many as the parameter of the query says.
pub(super) async fn list(host: &RunHost, limit: Option<String>) -> ApiResult {
    let most = match limit.map(|limit| limit.parse::<usize>()) {
        None => limits::SERVE_SESSIONS,
        Some(Ok(limit)) => limit.min(limits::SERVE_SESSIONS),
        Some(Err(_)) => return Err(Problem::bad_request("the limit is not a whole number")),
    };
    let store = host.app().sessions();
    let sessions = blocking(move || {
        let sessions = store.list(most)?;
        Ok(sessions.into_iter().map(|summary| view(&store, summary)).collect::<Vec<_>>())
    });
    Ok(json(host, StatusCode::OK, &SessionsView { sessions: sessions.await? }))
}

pub(super) async fn show(host: &RunHost, id: &str) -> ApiResult {
    let (store, id) = (host.app().sessions(), id.to_owned());
    let detail = blocking(move || detail(&store, &whole_name(&store, &id)?)).await?;
    Ok(json(host, StatusCode::OK, &detail))
}

pub(super) async fn attachment(host: &RunHost, id: &str, digest: &str) -> ApiResult {
    let not_found = || Problem::not_found("there is no such attachment of a session that this person made");
    let digest = Sha256Digest::of_hex(digest).ok_or_else(not_found)?;
    let (store, id) = (host.app().sessions(), id.to_owned());
    let content = blocking(move || {
        let id = whole_name(&store, &id)?;
        // The content of a session that came with the project may be anything.
        if store.is_own(&id)? { store.attachment(&id, &digest) } else { Ok(None) }
    });
    let content = content.await?.ok_or_else(not_found)?;
    let mut response = bytes_response(StatusCode::OK, "application/octet-stream", content);
    // Whatever it is, a browser does not show it as a page of this server.
    response.headers_mut().insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

/// Returns the number of runs that persons and clients have started in a session.
pub(super) async fn run_count(host: &RunHost, id: &str) -> Result<usize, Box<Problem>> {
    let (store, id) = (host.app().sessions(), id.to_owned());
    blocking(move || {
        let mut transcript = Transcript::default();
        store.read(&whole_name(&store, &id)?)?.map_while(Result::ok).for_each(|line| transcript.add(line));
        Ok(transcript.top().count())
    })
    .await
}

/// Removes a session, if it exists.
pub(super) async fn remove_session(host: &RunHost, id: &str) -> Result<(), Box<Problem>> {
    let (store, id) = (host.app().sessions(), id.to_owned());
    blocking(move || store.remove(&id).map(drop)).await
}

/// Runs `work` on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, Box<Problem>> {
    let done = tokio::task::spawn_blocking(work).await;
    let done =
        done.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the sessions cannot be read"))?;
    done.map_err(|error| match error {
        SessionError::NotFound { .. } | SessionError::BadName { .. } | SessionError::Ambiguous { .. } => {
            Problem::not_found("there is no such session").mend("GET /api/v1/sessions lists the sessions")
        }
        other => Problem::refusal(&other.report()),
    })
}

/// Returns the name of a session if it is whole: the beginning of a name is none here.
pub(super) fn whole_name(store: &SessionStore, id: &str) -> Result<String, SessionError> {
    let found = store.resolve(id)?;
    if found == id { Ok(found) } else { Err(SessionError::NotFound { given: id.to_owned() }) }
}

fn view(store: &SessionStore, summary: SessionSummary) -> SessionView {
    let SessionSummary { id, modified, in_use, content, .. } = summary;
    let own = store.is_marked(&id).unwrap_or(false);
    let modified = shown_time(modified);
    match content {
        Ok((header, status)) => SessionView {
            session: id,
            title: header.title,
            agent: header.agent,
            model: header.model,
            state: if in_use { SessionStateView::InUse } else { state(status) },
            created: Some(shown_time(header.created)),
            modified,
            own,
        },
        Err(reason) => SessionView {
            session: id,
            title: reason,
            agent: String::new(),
            model: String::new(),
            state: SessionStateView::Unreadable,
            created: None,
            modified,
            own,
        },
    }
}

fn state(status: SessionStatus) -> SessionStateView {
    match status {
        SessionStatus::Empty => SessionStateView::Empty,
        SessionStatus::Unfinished => SessionStateView::Interrupted,
        SessionStatus::Finished => SessionStateView::Answered,
        SessionStatus::Failed => SessionStateView::Failed,
    }
}

/// Reads a session as far as it is intact.
fn detail(store: &SessionStore, id: &str) -> Result<SessionDetailView, SessionError> {
    let mut transcript = Transcript::default();
    store.read(id)?.map_while(Result::ok).for_each(|line| transcript.add(line));
    // It may have been removed in the meantime.
    let summary = store.summary_of(id)?.ok_or_else(|| SessionError::NotFound { given: id.to_owned() })?;
    let said = transcript.top().flat_map(|run| run.said()).filter(|said| !said.note);
    let messages = shown_messages(said.map(|said| &*said.message));
    let attachments = store.attachments(id, limits::SESSION_FILES).unwrap_or_default();
    let attachments =
        attachments.into_iter().map(|(digest, bytes)| SessionAttachmentView { digest: digest.hex(), bytes });
    let total = transcript.ledger().total();
    Ok(SessionDetailView {
        session: view(store, summary),
        usage: UsageView::of(&total),
        cost_usd: cost(&total),
        messages,
        attachments: attachments.collect(),
    })
}

/// Returns the newest messages between a person and an agent, the oldest first.
fn shown_messages<'a>(said: impl Iterator<Item = &'a Message>) -> Vec<SessionMessageView> {
    let mut messages = VecDeque::new();
    for message in said {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System | Role::Tool => continue,
        };
        let text = cut(&message.text_content(), limits::SERVE_MESSAGE_CHARS);
        if !text.trim().is_empty() {
            messages.push_back(SessionMessageView { role, text });
        }
        if messages.len() > limits::SERVE_SESSION_MESSAGES {
            messages.pop_front();
        }
    }
    messages.into()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;
    use crate::{serve::hosted_runs::testing::SilentHost, session::NewSession};

    #[test]
    fn only_the_newest_messages_are_shown_and_cut() {
        let most = limits::SERVE_SESSION_MESSAGES;
        let long = "é".repeat(limits::SERVE_MESSAGE_CHARS + 1);
        let all: Vec<_> = (0..=most).map(|n| Message::user(n.to_string())).collect();
        let shown = shown_messages(all.iter());
        assert_eq!((shown.len(), &*shown[0].text, &*shown[most - 1].text), (most, "1", &*most.to_string()));
        let all = [Message::user(&*long), Message::text(Role::Assistant, "ada", " "), Message::user("so")];
        let shown: Vec<_> = shown_messages(all.iter()).into_iter().map(|message| message.text).collect();
        assert_eq!(shown, [format!("{}…", "é".repeat(limits::SERVE_MESSAGE_CHARS)), "so".into()]);
    }

    #[tokio::test]
    async fn failed_storage_is_no_fault_of_the_client() {
        let status = async |error: SessionError| {
            let failed = blocking(move || Err::<(), _>(error)).await.unwrap_err();
            (failed.status(), failed.code())
        };
        let disk = SessionError::Disk { doing: "read", path: "s".into(), error: std::io::ErrorKind::Other.into() };
        assert_eq!(status(disk).await, (StatusCode::INTERNAL_SERVER_ERROR, "internal"));
        let exists = SessionError::Exists { id: "s".into(), in_use: false };
        assert_eq!(status(exists).await, (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable"));
    }

    #[tokio::test]
    async fn list_has_only_so_many_sessions() {
        let silent = SilentHost::new(1).await;
        std::fs::create_dir_all(silent.host.app().config.root.join(".shelly/local")).unwrap();
        let store = silent.host.app().sessions();
        for n in 0..=limits::SERVE_SESSIONS {
            drop(store.create(NewSession { id: Some(format!("s{n}")), ..NewSession::default() }).unwrap());
        }
        let over = (limits::SERVE_SESSIONS + 1).to_string();
        for (limit, count) in
            [(None, limits::SERVE_SESSIONS), (Some(over), limits::SERVE_SESSIONS), (Some("3".into()), 3)]
        {
            let answer = list(&silent.host, limit).await.unwrap().into_body().collect().await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["sessions"].as_array().unwrap().len(), count);
        }
        assert!(list(&silent.host, Some("all".into())).await.is_err());
    }
}
