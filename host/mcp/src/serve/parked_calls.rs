use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::{InputRequest, InputRequiredResult, InputResponses};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::{
    client_elicitor::{PendingElicitation, answered, request},
    served_call::ServedCall,
};
use crate::ElicitationResult;
use shelly_core::{error::Fault, hex, limits};

/// Parked calls, which wait for an answer that the client brings with its next request, by their `requestState`.
#[derive(Default)]
pub(super) struct ParkedCalls(Arc<Mutex<HashMap<String, ParkedCall>>>);

struct ParkedCall {
    call: ServedCall,
    answer: oneshot::Sender<ElicitationResult>,
    /// The name and the arguments of the call: the client must repeat them.
    made: (String, String),
    /// Drops the call when it has waited too long.
    _end: AbortOnDropHandle<()>,
}

/// The key of the only question of a parked call.
const QUESTION: &str = "question";

impl ParkedCalls {
    /// Parks a call. Returns the response for the client.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the call cannot be parked: it is dropped.
    pub fn park(
        &self,
        mut call: ServedCall,
        question: PendingElicitation,
        made: (String, String),
    ) -> Result<InputRequiredResult, Fault> {
        let mut chance = [0; 16];
        getrandom::fill(&mut chance).map_err(|error| Fault::other(format!("cannot get random bytes: {error}")))?;
        let state = hex::encode(chance);
        let requests = BTreeMap::from([(QUESTION.to_owned(), InputRequest::Elicitation(request(&question.form)?))]);
        let mut parked = self.all();
        if parked.len() >= limits::MCP_SERVE_PARKED {
            let message = format!("{} calls wait for an answer already", limits::MCP_SERVE_PARKED);
            return Err(Fault::RateLimited { message, after: None });
        }
        let (weak, of) = (Arc::downgrade(&self.0), state.clone());
        let end = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(limits::MCP_SERVE_PARK_TIME).await;
            let gone = weak.upgrade().and_then(|parked| Self(parked).all().remove(&of));
            drop(gone);
        }));
        call.release_permit();
        parked.insert(state.clone(), ParkedCall { call, answer: question.answer, made, _end: end });
        drop(parked);
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }

    /// Resumes a parked call with the client's answer.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if no call has this state, if the name or the arguments differ, or if there is no valid answer.
    pub fn resume(
        &self,
        state: &str,
        made: &(String, String),
        answers: Option<InputResponses>,
    ) -> Result<ServedCall, Fault> {
        let mut parked = self.all();
        match parked.get(state) {
            Some(waits) if waits.made == *made => {}
            Some(_) => {
                return Err(Fault::invalid("`requestState` belongs to a call with another name or other arguments"));
            }
            None => {
                let minutes = limits::MCP_SERVE_PARK_TIME.as_secs() / 60;
                let message = format!("`requestState` belongs to no waiting call; a call waits {minutes} minutes");
                return Err(Fault::NotFound { message });
            }
        }
        let answer = answers.and_then(|mut answers| answers.remove(QUESTION)).and_then(answered);
        let answer = answer
            .ok_or_else(|| Fault::invalid(format!("`inputResponses.{QUESTION}` is missing or is not an answer")))?;
        let Some(ParkedCall { call, answer: waiting, .. }) = parked.remove(state) else {
            return Err(Fault::other("the call has ended"));
        };
        let _ = waiting.send(answer);
        Ok(call)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, ParkedCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
