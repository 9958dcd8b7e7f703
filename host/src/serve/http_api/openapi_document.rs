//! The description of the API, generated from its routes and from the types of its JSON.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    problem::Problem,
    request_bodies::{AnswerBody, FireTriggerBody, MessageBody, NewRunBody},
    routes::{ApiAction, ApiRoute, ROUTES},
    views::{
        DoneView, HealthView, QuestionsView, RunView, RunsView, ServedAgentsView, ServedPluginsView, SessionDetailView,
        SessionsView, StartedRunView, TriggerFiredView, TriggersView,
    },
};

/// Returns the OpenAPI document.
pub(super) fn openapi_document() -> Value {
    let at = |settings: &mut SchemaSettings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    };
    let mut sent = SchemaSettings::draft2020_12().with(at).into_generator();
    let mut answered = SchemaSettings::draft2020_12().with(at).for_serialize().into_generator();
    let problem = json!(answered.subschema_for::<Problem>());
    let mut paths = Map::new();
    for route in &ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation(route, &mut sent, &mut answered, &problem);
    }
    // The two have no type in common.
    let mut schemas = answered.take_definitions(true);
    schemas.extend(sent.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "shelly-host",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs of agents, their events, questions and sessions.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Returns the description of one route.
fn operation(route: &ApiRoute, sent: &mut SchemaGenerator, answered: &mut SchemaGenerator, problem: &Value) -> Value {
    let (status, content) = answer(route.action, answered);
    let refusal =
        json!({ "description": "A refusal.", "content": { "application/problem+json": { "schema": problem } } });
    let mut responses = json!({ status: { "description": "Done.", "content": &content }, "default": refusal });
    for (status, description) in other_statuses(route.action) {
        responses[*status] = json!({ "description": description, "content": &content });
    }
    let mut operation = json!({
        "operationId": format!("{:?}", route.action),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses,
        "security": if route.is_public { json!([]) } else { json!([{ "token": [] }]) },
    });
    if let Some(schema) = body(route.action, sent) {
        let required = route.action != ApiAction::FireTrigger;
        operation["requestBody"] =
            json!({ "required": required, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

fn body(action: ApiAction, sent: &mut SchemaGenerator) -> Option<Schema> {
    Some(match action {
        ApiAction::StartRun => sent.subschema_for::<NewRunBody>(),
        ApiAction::SendMessage => sent.subschema_for::<MessageBody>(),
        ApiAction::FireTrigger => sent.subschema_for::<FireTriggerBody>(),
        ApiAction::AnswerQuestion => sent.subschema_for::<AnswerBody>(),
        _ => return None,
    })
}

/// Returns the status of an answer and its content.
fn answer(action: ApiAction, answered: &mut SchemaGenerator) -> (&'static str, Value) {
    let text = |kind: &str| json!({ kind: { "schema": { "type": "string" } } });
    fn of<T: JsonSchema>(answered: &mut SchemaGenerator) -> Value {
        json!({ "application/json": { "schema": answered.subschema_for::<T>() } })
    }
    match action {
        ApiAction::Page => ("200", text("text/html")),
        ApiAction::Metrics => ("200", text("text/plain")),
        ApiAction::WatchRun => ("200", text("text/event-stream")),
        ApiAction::ReadSessionEvents => ("200", text("application/x-ndjson")),
        ApiAction::ReadAttachment => ("200", json!({ "application/octet-stream": {} })),
        ApiAction::OpenApi => ("200", json!({ "application/json": { "schema": { "type": "object" } } })),
        ApiAction::Health => ("200", of::<HealthView>(answered)),
        ApiAction::StartRun => ("201", of::<StartedRunView>(answered)),
        ApiAction::ListRuns => ("200", of::<RunsView>(answered)),
        ApiAction::ShowRun => ("200", of::<RunView>(answered)),
        ApiAction::CancelRun => ("202", of::<RunView>(answered)),
        ApiAction::SendMessage => ("202", of::<DoneView>(answered)),
        ApiAction::ListQuestions => ("200", of::<QuestionsView>(answered)),
        ApiAction::AnswerQuestion => ("200", of::<DoneView>(answered)),
        ApiAction::ListSessions => ("200", of::<SessionsView>(answered)),
        ApiAction::ShowSession => ("200", of::<SessionDetailView>(answered)),
        ApiAction::ListAgents => ("200", of::<ServedAgentsView>(answered)),
        ApiAction::ListPlugins => ("200", of::<ServedPluginsView>(answered)),
        ApiAction::ListTriggers => ("200", of::<TriggersView>(answered)),
        ApiAction::FireTrigger | ApiAction::ReceiveWebhook => ("202", of::<TriggerFiredView>(answered)),
    }
}

/// Returns the other statuses with which a route returns the same content, each with its meaning.
fn other_statuses(action: ApiAction) -> &'static [(&'static str, &'static str)] {
    match action {
        ApiAction::StartRun => &[("200", "The run that began with the same idempotency key and body.")],
        ApiAction::CancelRun => &[("200", "The run has ended already.")],
        ApiAction::FireTrigger => &[("200", "The firing was skipped: no run is started.")],
        ApiAction::ReceiveWebhook => &[("200", "The webhook was skipped, or has come before: no run is started.")],
        ApiAction::Health => &[("503", "The server stops.")],
        _ => &[],
    }
}

/// Returns the parameters of a route: the braces of its path, and those of its query and head.
fn parameters(route: &ApiRoute) -> Vec<Value> {
    let parameter = |name: &str, place: &str, is_required: bool, kind: &str, about: &str| {
        let schema = match kind {
            "integer" => json!({ "type": kind, "minimum": 0 }),
            _ => json!({ "type": kind }),
        };
        json!({ "name": name, "in": place, "required": is_required, "description": about, "schema": schema })
    };
    let braces = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<_> = braces.map(|name| parameter(name, "path", true, "string", name)).collect();
    match route.action {
        ApiAction::StartRun => {
            let about = "The same key with the same body starts one run, however often it is sent.";
            parameters.push(parameter("Idempotency-Key", "header", false, "string", about));
        }
        ApiAction::WatchRun => {
            let about = "The sequence after which the events begin.";
            parameters.push(parameter("after", "query", false, "integer", about));
            parameters.push(parameter("Last-Event-ID", "header", false, "integer", about));
        }
        ApiAction::ReadSessionEvents => {
            let about = "The number of the line after which the events begin.";
            parameters.push(parameter("after", "query", false, "integer", about));
        }
        ApiAction::ListQuestions => {
            parameters.push(parameter("run", "query", false, "string", "The run whose questions are listed."));
        }
        ApiAction::ListSessions => {
            parameters.push(parameter("limit", "query", false, "integer", "The maximum number of sessions."));
        }
        _ => {}
    }
    parameters
}
