//! Responses after the request that made them: asked for again, cancelled, deleted.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::StatusCode;
use serde::Serialize;
use tokio::time::timeout;

use super::{
    chat_reply::thoughts,
    openai_error::OpenAiError,
    response_id::ResponseId,
    responses_reply::{OpenAiResponse, ResponseEnd, ResponseHead, ResponseItem, ResponsePart, ResponseStatus},
    run_ending::AnswerEnding,
};
use crate::{
    error::{cut, legible},
    limits,
    serve::{
        hosted_runs::{HostedRun, RunHost, RunSnapshot},
        http_api::{
            conversations::text_of_run,
            problem::Problem,
            session_routes::{remove_session, run_count},
        },
    },
};

/// The responses of this server, as long as it remembers their runs.
#[derive(Default)]
pub struct StoredResponses(Mutex<VecDeque<Arc<ResponseHead>>>);

/// The answer to a deletion.
#[derive(Debug, Serialize)]
pub struct DeletedResponse {
    id: String,
    object: &'static str,
    deleted: bool,
}

impl StoredResponses {
    /// Remembers a response, and forgets those whose runs are forgotten. So there are never more of them than runs.
    pub fn add(&self, host: &RunHost, head: ResponseHead) {
        let mut all = self.all();
        all.retain(|there| host.run(&there.run).is_ok());
        all.push_back(Arc::new(head));
    }

    /// Returns a response as its run is now.
    ///
    /// # Errors
    ///
    /// An [`OpenAiError`] if it is not remembered.
    pub async fn retrieve(&self, host: &RunHost, id: &str) -> Result<OpenAiResponse, Box<OpenAiError>> {
        let (head, run) = self.find(host, id)?;
        Ok(response_now(host, &head, &run).await)
    }

    /// Cancels the run of a response in the background, unless it has ended. Returns the response as it is then.
    ///
    /// # Errors
    ///
    /// An [`OpenAiError`] if it is not remembered, or not in the background.
    pub async fn cancel(&self, host: &RunHost, id: &str) -> Result<OpenAiResponse, Box<OpenAiError>> {
        let (head, run) = self.find(host, id)?;
        if !head.is_background {
            let why = "only a response with `background` can be cancelled; another one ends with the connection of its client";
            return Err(OpenAiError::invalid(None, why));
        }
        if !run.state().has_ended() {
            run.cancel();
            // A step that does not end in time goes on, and the state says so.
            let _ = timeout(limits::CANCEL_GRACE, run.finished()).await;
        }
        Ok(response_now(host, &head, &run).await)
    }

    /// Deletes a response, with the session in which it is stored.
    ///
    /// # Errors
    ///
    /// An [`OpenAiError`] if it is not remembered, its run is at work, or its session has other responses.
    pub async fn delete(&self, host: &RunHost, id: &str) -> Result<DeletedResponse, Box<OpenAiError>> {
        let (head, run) = self.find(host, id)?;
        let conflict = |what: &str, mend: &str| Problem::new(StatusCode::CONFLICT, "conflict", what).mend(mend);
        if !run.state().has_ended() {
            return Err(conflict("the run of the response is at work", "cancel it, or wait for its end").into());
        }
        if let Some(ResponseId { session, .. }) = ResponseId::parse(&head.id) {
            // A session that is gone has no runs to lose.
            if run_count(host, &session).await.is_ok_and(|runs| runs > 1) {
                let mend = "delete all of them with `shelly-host session rm`";
                return Err(conflict("the session of the response has other responses too", mend).into());
            }
            remove_session(host, &session).await?;
        }
        self.all().retain(|there| there.id != head.id);
        Ok(DeletedResponse { id: head.id.clone(), object: "response", deleted: true })
    }

    fn find(&self, host: &RunHost, id: &str) -> Result<(Arc<ResponseHead>, Arc<HostedRun>), Box<OpenAiError>> {
        let head = self.all().iter().find(|head| head.id == id).cloned();
        let found = head.and_then(|head| Some((Arc::clone(&head), host.run(&head.run).ok()?)));
        found.ok_or_else(|| {
            let shown = cut(&legible(id), limits::NAME_SHOWN_CHARS);
            let problem = Problem::not_found(format!("there is no response `{shown}`"));
            problem.mend("a response can be retrieved as long as the server remembers its run").into()
        })
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<ResponseHead>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a response as its run is now.
async fn response_now(host: &RunHost, head: &ResponseHead, run: &HostedRun) -> OpenAiResponse {
    let snapshot = run.snapshot();
    if !snapshot.state().has_ended() {
        return OpenAiResponse::in_progress(head);
    }
    match AnswerEnding::of(&snapshot) {
        Ok(ending) => ended_response(host, head, (run, &snapshot), ending).await,
        Err(error) => OpenAiResponse::new(head, Vec::new(), ResponseEnd::without_answer(&snapshot, error.message)),
    }
}

/// Returns the whole response of a run that has something to tell.
pub async fn ended_response(
    host: &RunHost,
    head: &ResponseHead,
    (run, snapshot): (&HostedRun, &RunSnapshot),
    ending: AnswerEnding,
) -> OpenAiResponse {
    let (status, part) = match ending {
        AnswerEnding::Refused(refusal) => (ResponseStatus::Completed, ResponsePart::Refusal { refusal }),
        AnswerEnding::Complete => {
            (ResponseStatus::Completed, ResponsePart::text(text_of_run(host, run, snapshot).await))
        }
        AnswerEnding::CutShort => {
            (ResponseStatus::Incomplete, ResponsePart::text(text_of_run(host, run, snapshot).await))
        }
    };
    let summary = thoughts(snapshot).map(|text| vec![ResponsePart::SummaryText { text }]);
    let mut output: Vec<_> =
        summary.map(|summary| ResponseItem::reasoning(&head.run, 0, summary)).into_iter().collect();
    output.push(ResponseItem::message(&head.run, output.len(), status, vec![part]));
    let end = ResponseEnd { status, error: None, usage: Some(snapshot.usage().into()) };
    OpenAiResponse::new(head, output, end)
}
