//! The questions that wait for a person.

use http::StatusCode;

use super::{
    problem::{ApiResult, Problem},
    request_bodies::{AnswerBody, read_json},
    run_routes::json,
    views::{DoneView, QuestionView, QuestionsView},
};
use crate::{limits, net::http_server::ServedRequest, serve::hosted_runs::RunHost};

pub(super) fn list(host: &RunHost, request: &ServedRequest) -> ApiResult {
    let run = request.query_value("run");
    let of_run =
        host.questions().into_iter().filter(|open| run.as_deref().is_none_or(|run| &*open.question.run == run));
    Ok(json(host, StatusCode::OK, &QuestionsView { questions: of_run.map(QuestionView::of).collect() }))
}

pub(super) async fn answer(host: &RunHost, id: &str, request: &mut ServedRequest) -> ApiResult {
    let id = id.parse::<u64>().map_err(|_| Problem::not_found("there is no such question"))?;
    let body: AnswerBody = read_json(request, limits::SERVE_BODY_BYTES).await?;
    host.answer(id, &body.into_reply()?)?;
    Ok(json(host, StatusCode::OK, &DoneView {}))
}
