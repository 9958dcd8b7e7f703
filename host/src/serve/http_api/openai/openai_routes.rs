//! The requests below `/v1/`.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::{
    chat_reply::{ChatCompletionHead, ChatCompletionReply},
    chat_request::ChatCompletionCall,
    chat_stream::ChatCompletionStream,
    openai_error::OpenAiError,
    request_parts::read_parameters,
    response_id::ResponseId,
    responses_reply::{OpenAiResponse, ResponseHead},
    responses_request::ResponseCall,
    responses_stream::ResponseStream,
    run_ending::{AnswerEnding, seconds_of},
    stored_responses::{StoredResponses, ended_response},
};
use crate::{
    net::http_server::{ServedRequest, ServedResponse, single_event_stream},
    serve::{
        hosted_runs::{RunHost, RunSnapshot, RunTarget},
        http_api::{
            conversations::{AnswerReader, RunLease, SaidText, text_of_run},
            listing_routes::served_agents,
            problem::Problem,
            run_routes::{body_turn, json},
            session_routes::run_count,
        },
    },
};

/// The beginning of the paths of OpenAI's API.
pub const OPENAI_PREFIX: &str = "/v1/";

/// The beginning of the paths of responses.
const RESPONSE_PREFIX: &str = "/v1/responses/";

/// The end of the path at which a response is cancelled.
const CANCEL_SUFFIX: &str = "/cancel";

/// The header in which OpenAI's clients find the id of a request: here, that of its run.
const REQUEST_ID: &str = "x-request-id";

type OpenAiResult = Result<ServedResponse, Box<OpenAiError>>;

/// An agent as a model.
#[derive(Debug, Serialize)]
struct OpenAiModel {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
}

/// The agents as models.
#[derive(Debug, Serialize)]
struct OpenAiModels {
    object: &'static str,
    data: Vec<OpenAiModel>,
}

/// Answers a request of OpenAI's API. Bodies that are not small are read in turn, with a permit of `bodies`.
pub async fn answer(
    host: &RunHost,
    stored: &StoredResponses,
    bodies: &Semaphore,
    request: &mut ServedRequest,
) -> ServedResponse {
    respond(host, stored, bodies, request).await.unwrap_or_else(|error| error.response(host))
}

async fn respond(
    host: &RunHost,
    stored: &StoredResponses,
    bodies: &Semaphore,
    request: &mut ServedRequest,
) -> OpenAiResult {
    let (path, method) = (request.path().to_owned(), request.method().as_str().to_owned());
    let allowed = allowed_methods(&path);
    if allowed.is_empty() {
        let mend = "use /v1/models, /v1/chat/completions or /v1/responses";
        return Err(Problem::not_found("there is no such path").mend(mend).into());
    }
    if !allowed.contains(&&*method) {
        return Err(Problem::method(allowed.join(", ")).into());
    }
    if let Some(below) = path.strip_prefix(RESPONSE_PREFIX) {
        return match (&*method, below.strip_suffix(CANCEL_SUFFIX)) {
            ("DELETE", _) => Ok(json(host, StatusCode::OK, &stored.delete(host, below).await?)),
            ("POST", Some(id)) => Ok(json(host, StatusCode::OK, &stored.cancel(host, id).await?)),
            _ => Ok(json(host, StatusCode::OK, &stored.retrieve(host, below).await?)),
        };
    }
    match path.as_str() {
        "/v1/responses" => responses(host, stored, bodies, request).await,
        "/v1/chat/completions" => chat(host, bodies, request).await,
        _ => match path.strip_prefix("/v1/models/") {
            None => Ok(json(host, StatusCode::OK, &OpenAiModels { object: "list", data: models(host) })),
            Some(name) => {
                let known = models(host);
                match known.iter().find(|model| model.id == name) {
                    Some(model) => Ok(json(host, StatusCode::OK, model)),
                    None => Err(OpenAiError::no_model(name, &names(&known))),
                }
            }
        },
    }
}

/// Returns the methods of a path; none if there is no such path.
fn allowed_methods(path: &str) -> &'static [&'static str] {
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    if let Some(below) = path.strip_prefix(RESPONSE_PREFIX) {
        return match below.strip_suffix(CANCEL_SUFFIX) {
            Some(id) if is_name(id) => &["POST"],
            None if is_name(below) => &["GET", "DELETE"],
            _ => &[],
        };
    }
    match path {
        "/v1/chat/completions" | "/v1/responses" => &["POST"],
        "/v1/models" => &["GET"],
        _ if path.strip_prefix("/v1/models/").is_some_and(is_name) => &["GET"],
        _ => &[],
    }
}

fn models(host: &RunHost) -> Vec<OpenAiModel> {
    let mut agents = served_agents(host);
    // Clients take the first one if a person chooses none.
    agents.sort_by_key(|agent| !agent.entry);
    let model =
        |(id, description)| OpenAiModel { id, object: "model", created: 0, owned_by: "shelly-host", description };
    agents.into_iter().map(|agent| (agent.name, agent.description)).map(model).collect()
}

fn names(models: &[OpenAiModel]) -> Vec<String> {
    models.iter().map(|model| model.id.clone()).collect()
}

/// Returns the agent that a request names; `None`: the default one. A name that is no agent is refused: a misspelt name
/// must not start an agent with other tools.
fn agent_of(host: &RunHost, model: Option<&str>) -> Result<Option<String>, Box<OpenAiError>> {
    let Some(name) = model else { return Ok(None) };
    let known = models(host);
    match known.iter().any(|model| model.id == name) {
        true => Ok(Some(name.to_owned())),
        false => Err(OpenAiError::no_model(name, &names(&known))),
    }
}

async fn chat(host: &RunHost, bodies: &Semaphore, request: &mut ServedRequest) -> OpenAiResult {
    let call = {
        let _turn = body_turn(bodies, request.body_bytes()).await;
        ChatCompletionCall::parse(read_parameters(request).await?)?
    };
    let ChatCompletionCall { model, request: mut wanted, is_streamed, includes_usage, has_schema } = call;
    wanted.agent = agent_of(host, model.as_deref())?;
    wanted.outer_span = request.outer_span();
    let lease = RunLease::start(host, wanted).await?;
    let begun = lease.run().snapshot();
    let head = ChatCompletionHead {
        id: format!("chatcmpl-{}", begun.id),
        created: seconds_of(begun.started),
        model: model.unwrap_or_else(|| agent_name(&begun)),
    };
    if is_streamed {
        let said = if has_schema { SaidText::held() } else { SaidText::default() };
        let reader = AnswerReader::new(host.clone(), lease, said);
        let frames = ChatCompletionStream::frames(reader, head, includes_usage);
        return Ok(with_run(single_event_stream(frames), &begun));
    }
    let run = lease.run().finished().await;
    let ending = AnswerEnding::of(&run)?;
    let text = text_of_run(host, lease.run(), &run).await;
    let reply = ChatCompletionReply::new(head, &run, ending, text);
    Ok(with_run(json(host, StatusCode::OK, &reply), &begun))
}

async fn responses(
    host: &RunHost,
    stored: &StoredResponses,
    bodies: &Semaphore,
    request: &mut ServedRequest,
) -> OpenAiResult {
    let call = {
        let _turn = body_turn(bodies, request.body_bytes()).await;
        ResponseCall::parse(read_parameters(request).await?)?
    };
    let (is_streamed, is_background, has_schema) = (call.is_streamed, call.is_background, call.has_schema);
    let ResponseCall { model, request: mut wanted, previous, instructions, format, .. } = call;
    wanted.agent = agent_of(host, model.as_deref())?;
    wanted.outer_span = request.outer_span();
    let mut runs = 1;
    if let Some(previous) = &previous {
        let id = continued(host, previous).await?;
        runs = id.runs.saturating_add(1);
        wanted.target = RunTarget::Named(id.session);
    }
    let output_tokens = wanted.output_tokens;
    // A run in the background has no lease, so it goes on when its client goes.
    let (run, lease) = match is_background {
        true => (host.start(wanted).await?, None),
        false => {
            let lease = RunLease::start(host, wanted).await?;
            (Arc::clone(lease.run()), Some(lease))
        }
    };
    let begun = run.snapshot();
    let id = match &begun.session {
        Some(session) => ResponseId { session: session.clone(), runs }.to_string(),
        None => ResponseId::not_stored(&begun.id),
    };
    let head = ResponseHead {
        id,
        run: begun.id.to_string(),
        created: seconds_of(begun.started),
        model: model.unwrap_or_else(|| agent_name(&begun)),
        instructions,
        previous,
        is_stored: begun.session.is_some(),
        is_background,
        output_tokens,
        format,
    };
    stored.add(host, head.clone());
    let Some(lease) = lease else {
        return Ok(with_run(json(host, StatusCode::OK, &OpenAiResponse::in_progress(&head)), &begun));
    };
    if is_streamed {
        let said = if has_schema { SaidText::held() } else { SaidText::default() };
        let reader = AnswerReader::new(host.clone(), lease, said);
        return Ok(with_run(single_event_stream(ResponseStream::frames(reader, head)), &begun));
    }
    let ended = run.finished().await;
    let ending = AnswerEnding::of(&ended)?;
    let response = ended_response(host, &head, (&run, &ended), ending).await;
    drop(lease);
    Ok(with_run(json(host, StatusCode::OK, &response), &begun))
}

/// Returns the session of a response that is the newest of it.
async fn continued(host: &RunHost, previous: &str) -> Result<ResponseId, Box<OpenAiError>> {
    let id = ResponseId::parse(previous);
    let id = id.ok_or_else(|| OpenAiError::no_response("the previous response is not stored, so it has no session"))?;
    let runs = match run_count(host, &id.session).await {
        Ok(runs) => runs,
        Err(problem) if problem.status() == StatusCode::NOT_FOUND => {
            return Err(OpenAiError::no_response("the session of the previous response does not exist"));
        }
        Err(problem) => return Err(problem.into()),
    };
    match runs == id.runs {
        true => Ok(id),
        false => Err(OpenAiError::no_response(format!(
            "the previous response is number {} of its session, which has {runs}; only the newest can be continued. Send the \
             conversation as `input`, or fork the session with `shelly-host session fork`",
            id.runs
        ))),
    }
}

/// Returns the name of the agent of a run that names none.
fn agent_name(run: &RunSnapshot) -> String {
    run.agent.as_deref().unwrap_or_default().to_owned()
}

/// Adds the id of the run to an answer.
fn with_run(mut response: ServedResponse, run: &RunSnapshot) -> ServedResponse {
    if let Ok(id) = HeaderValue::try_from(&*run.id) {
        response.headers_mut().insert(HeaderName::from_static(REQUEST_ID), id);
    }
    response
}
