//! The JSON of questions and answers, for other ways than HTTP on which they travel.

use serde_json::Value;

use super::{request_bodies::AnswerBody, views::QuestionView};
use crate::serve::hosted_runs::{HostedQuestion, QuestionReply};

/// Returns a question as clients of the HTTP API get it.
pub fn question_json(open: HostedQuestion) -> Value {
    serde_json::to_value(QuestionView::of(open)).unwrap_or_default()
}

/// Parses an answer as clients of the HTTP API send it.
///
/// # Errors
///
/// The reason why it is not exactly one answer.
pub fn parse_reply(body: Value) -> Result<QuestionReply, String> {
    let body: AnswerBody =
        serde_json::from_value(body).map_err(|error| format!("the answer cannot be used: {error}"))?;
    body.into_reply().map_err(|problem| problem.title().to_owned())
}
