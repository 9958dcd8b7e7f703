//! The middleware around runs. Its words are the arms of the two functions.

use shelly_plugin::{
    Error, Message,
    run_middleware::{AfterDecision, Again, BeforeDecision, Outcome, Pass, RunMiddleware},
    types::{Role, RunContext},
};

use crate::{error, params, spin, unknown};

pub(crate) struct Probe;

impl RunMiddleware for Probe {
    fn before(cx: RunContext, input: Vec<Message>) -> Result<BeforeDecision, Error> {
        let params = params()?;
        let pass = |input, state: &str| Ok(BeforeDecision::Proceed(Pass { input, state: state.into() }));
        match params.middleware.as_str() {
            "answer" => Ok(BeforeDecision::Answer(Message::new(Role::Assistant, params.text("answered")))),
            "reject-before" => Ok(BeforeDecision::Reject(Error::Denied(params.text("rejected")))),
            "panic-before" => panic!("asked to panic"),
            "spin-before" => spin(),
            "change-input" => pass(Some(vec![Message::new(Role::User, params.text("changed"))]), ""),
            "state" => pass(None, &format!("{} {} {}", cx.agent, cx.depth, input.len())),
            "" | "retry" | "replace" | "reject" | "panic" | "spin" => pass(None, ""),
            word if word.strip_prefix("error-").and_then(error).is_some() => pass(None, ""),
            word => Err(unknown("middleware", word)),
        }
    }

    fn after(_cx: RunContext, outcome: Outcome, state: Vec<u8>) -> Result<AfterDecision, Error> {
        let params = params()?;
        let replace = |text| Ok(AfterDecision::Replace(Message::new(Role::Assistant, text)));
        if let Some(error) = params.middleware.strip_prefix("error-").and_then(error) {
            return Err(error);
        }
        match params.middleware.as_str() {
            "" | "change-input" => Ok(AfterDecision::Accept),
            "retry" if outcome.attempt < params.times => {
                Ok(AfterDecision::Retry(Again { feedback: Some(params.text("try again")), delay_ms: 0, state }))
            }
            "retry" => Ok(AfterDecision::Accept),
            "replace" => replace(params.text("replaced")),
            "state" => replace(String::from_utf8_lossy(&state).into_owned()),
            "reject" => Ok(AfterDecision::Reject(Error::Denied(params.text("rejected")))),
            "panic" => panic!("asked to panic"),
            "spin" => spin(),
            word => Err(unknown("middleware", word)),
        }
    }
}
