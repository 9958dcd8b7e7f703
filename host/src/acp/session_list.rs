use std::path::Path;

use serde_json::{Value, json};

use super::rpc::RpcError;
use crate::{files, limits, session::SessionStore};

/// Returns a page of the sessions of a project, the newest first. The cursor of the next page is the number of sessions
/// before it.
///
/// # Errors
///
/// The error that answers a request with a cursor that the host has not given, or for sessions that cannot be read.
pub(super) fn session_list(store: &SessionStore, folder: &Path, cursor: Option<&str>) -> Result<Value, RpcError> {
    let before = match cursor {
        Some(cursor) => {
            let number = cursor.parse::<usize>().ok().filter(|number| *number <= limits::SESSIONS);
            number.ok_or_else(|| RpcError::invalid_params("the cursor is none that this agent has given"))?
        }
        None => 0,
    };
    let most = before + limits::ACP_LISTED_SESSIONS;
    let found = store.list(most + 1).map_err(|error| RpcError::of_report(&error.report()))?;
    let has_more = found.len() > most;
    let page = found.into_iter().take(most).skip(before).filter_map(|session| {
        // A session that cannot be read cannot be resumed either.
        let (header, _) = session.content.ok()?;
        let time = humantime::format_rfc3339_seconds(files::writable_date(session.modified)).to_string();
        let cwd = folder.to_string_lossy();
        Some(json!({"sessionId": session.id, "cwd": cwd, "title": header.title, "updatedAt": time}))
    });
    let sessions: Vec<_> = page.collect();
    Ok(match has_more {
        true => json!({"sessions": sessions, "nextCursor": most.to_string()}),
        false => json!({ "sessions": sessions }),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::session::{MemoryDisk, NewSession, SessionStoreOptions};

    #[tokio::test]
    async fn sessions_are_listed_page_by_page() {
        let store = SessionStore::new(Arc::new(MemoryDisk::new()), "/s", SessionStoreOptions::default());
        for n in 0..limits::ACP_LISTED_SESSIONS + 2 {
            let new = NewSession { id: Some(format!("s{n}")), title: format!("title {n}"), ..NewSession::default() };
            store.create(new).unwrap().close().await.unwrap();
        }
        let page = |cursor: Option<&str>| session_list(&store, Path::new("/p"), cursor);
        let first = page(None).unwrap();
        let sessions = first["sessions"].as_array().unwrap();
        assert_eq!((sessions.len(), &first["nextCursor"]), (limits::ACP_LISTED_SESSIONS, &json!("50")));
        assert_eq!(sessions[0]["cwd"], "/p");
        let last = page(Some("50")).unwrap();
        assert_eq!((last["sessions"].as_array().unwrap().len(), last.get("nextCursor")), (2, None));
        for cursor in ["-1", "x", "99999999999"] {
            assert_eq!(page(Some(cursor)).unwrap_err().code, RpcError::INVALID_PARAMS, "{cursor}");
        }
    }
}
