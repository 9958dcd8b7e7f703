//! The requests below `/ag-ui/`.

use http::Method;
use tokio::sync::Semaphore;

use super::{ag_ui_stream::AgUiStream, event_translation::AgUiTranslation, run_agent_input::AgUiCall};
use crate::{
    limits,
    net::http_server::{ServedRequest, single_event_stream},
    serve::{
        hosted_runs::RunHost,
        http_api::{
            conversations::RunLease,
            listing_routes::served_agents,
            problem::{ApiResult, Problem},
            request_bodies::read_json_bytes,
            run_routes::body_turn,
        },
    },
};

/// The beginning of the paths of the protocol; the name of an agent follows.
pub const AG_UI_PREFIX: &str = "/ag-ui/";

/// Starts a run, and answers with its events. Bodies that are not small are read in turn, with a permit of `bodies`.
pub async fn start(host: &RunHost, bodies: &Semaphore, request: &mut ServedRequest) -> ApiResult {
    if request.method() != Method::POST {
        return Err(Problem::method("POST".into()));
    }
    let agent = request.path().strip_prefix(AG_UI_PREFIX).unwrap_or_default().to_owned();
    let known = served_agents(host);
    if !known.iter().any(|known| known.name == agent) {
        let names: Vec<_> = known.iter().map(|known| format!("{AG_UI_PREFIX}{}", known.name)).collect();
        return Err(Problem::not_found("there is no such agent").mend(format!("use one of {}", names.join(", "))));
    }
    let call = {
        let _turn = body_turn(bodies, request.body_bytes()).await;
        AgUiCall::parse(&read_json_bytes(request, limits::SERVE_RUN_BODY_BYTES).await?)?
    };
    let AgUiCall { thread, run, state, request: mut wanted } = call;
    wanted.agent = Some(agent);
    wanted.outer_span = request.outer_span();
    let lease = RunLease::start(host, wanted).await?;
    let translation = AgUiTranslation::new(thread, run, &lease.run().snapshot());
    Ok(single_event_stream(AgUiStream::frames(host.clone(), lease, translation, state)))
}
