use super::problem::Problem;

/// The action of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiAction {
    Page,
    Health,
    Metrics,
    OpenApi,
    StartRun,
    ListRuns,
    ShowRun,
    CancelRun,
    SendMessage,
    WatchRun,
    ListQuestions,
    AnswerQuestion,
    ListSessions,
    ShowSession,
    ReadSessionEvents,
    ReadAttachment,
    ListAgents,
    ListPlugins,
    ListTriggers,
    FireTrigger,
    ReceiveWebhook,
}

/// A method and a path, and their action.
#[derive(Debug)]
pub(super) struct ApiRoute {
    pub method: &'static str,
    /// The path; a part in braces stands for any text without a slash.
    pub path: &'static str,
    pub action: ApiAction,
    /// `true` if a request needs no token.
    pub is_public: bool,
    /// A sentence on the action, for the description of the API.
    pub summary: &'static str,
}

const fn route(method: &'static str, path: &'static str, action: ApiAction, summary: &'static str) -> ApiRoute {
    ApiRoute { method, path, action, is_public: false, summary }
}

const fn public(path: &'static str, action: ApiAction, summary: &'static str) -> ApiRoute {
    ApiRoute { is_public: true, ..route("GET", path, action, summary) }
}

/// All routes.
pub(super) static ROUTES: [ApiRoute; 21] = [
    public("/", ApiAction::Page, "The web page, which shows runs and answers questions."),
    public("/healthz", ApiAction::Health, "Says whether the server takes runs."),
    public("/openapi.json", ApiAction::OpenApi, "Describes this API."),
    route("GET", "/metrics", ApiAction::Metrics, "Counts runs, tokens, questions and more, for Prometheus."),
    route("POST", "/api/v1/runs", ApiAction::StartRun, "Starts a run, and answers when its agents are built."),
    route("GET", "/api/v1/runs", ApiAction::ListRuns, "Lists the runs, the newest first."),
    route("GET", "/api/v1/runs/{run}", ApiAction::ShowRun, "Shows a run: its state, answer, usage and cost."),
    route(
        "POST",
        "/api/v1/runs/{run}/cancel",
        ApiAction::CancelRun,
        "Cancels a run: its running step ends. A second time, the run is dropped at once.",
    ),
    route(
        "POST",
        "/api/v1/runs/{run}/messages",
        ApiAction::SendMessage,
        "Gives an agent at work a message, which it reads before its next turn.",
    ),
    route(
        "GET",
        "/api/v1/runs/{run}/events",
        ApiAction::WatchRun,
        "Streams the events of a run, from the beginning or after a sequence.",
    ),
    route("GET", "/api/v1/questions", ApiAction::ListQuestions, "Lists the questions that wait for a person."),
    route("POST", "/api/v1/questions/{question}", ApiAction::AnswerQuestion, "Answers a question."),
    route("GET", "/api/v1/sessions", ApiAction::ListSessions, "Lists the sessions of the project, the newest first."),
    route("GET", "/api/v1/sessions/{session}", ApiAction::ShowSession, "Shows a session with its conversation."),
    route(
        "GET",
        "/api/v1/sessions/{session}/events",
        ApiAction::ReadSessionEvents,
        "Returns the recorded events of a session, one JSON object a line.",
    ),
    route(
        "GET",
        "/api/v1/sessions/{session}/attachments/{digest}",
        ApiAction::ReadAttachment,
        "Returns an attachment of a session that this person made.",
    ),
    route("GET", "/api/v1/agents", ApiAction::ListAgents, "Lists the agents and teams."),
    route("GET", "/api/v1/plugins", ApiAction::ListPlugins, "Lists the plugins."),
    route("GET", "/api/v1/triggers", ApiAction::ListTriggers, "Lists the triggers: their last and next firings."),
    route("POST", "/api/v1/triggers/{trigger}/fire", ApiAction::FireTrigger, "Fires a trigger now."),
    ApiRoute {
        is_public: true,
        ..route("POST", "/hooks/{trigger}", ApiAction::ReceiveWebhook, "Takes a webhook, whose signature is its proof.")
    },
];

/// Returns the route of a request, and the parts of its path that stand for braces.
///
/// # Errors
///
/// A [`Problem`] if no route has this path, or none has this method there. The path is compared as it was sent: nothing
/// in it is decoded, so `%2e%2e` and `//` are parts like others, which name nothing.
pub(super) fn find<'a>(method: &str, path: &'a str) -> Result<(&'static ApiRoute, Vec<&'a str>), Box<Problem>> {
    let there = || ROUTES.iter().filter_map(move |route| Some((route, arguments(route.path, path)?)));
    if let Some(found) = there().find(|(route, _)| route.method == method) {
        return Ok(found);
    }
    let allowed: Vec<_> = there().map(|(route, _)| route.method).collect();
    match allowed.is_empty() {
        true => Err(Problem::not_found("there is no such path").mend("GET /openapi.json lists the paths")),
        false => Err(Problem::method(allowed.join(", "))),
    }
}

/// Returns `true` if a request for this path needs no token, whatever its method: a method that the path does not have is
/// refused as such, which says no more than the description of the API.
pub(super) fn is_public(path: &str) -> bool {
    let mut there = ROUTES.iter().filter(|route| arguments(route.path, path).is_some()).peekable();
    there.peek().is_some() && there.all(|route| route.is_public)
}

/// Returns the parts of a path that stand for the braces of a pattern; `None` if it does not match.
fn arguments<'a>(pattern: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let (mut of_pattern, mut of_path, mut arguments) = (pattern.split('/'), path.split('/'), Vec::new());
    loop {
        match (of_pattern.next(), of_path.next()) {
            (None, None) => return Some(arguments),
            (Some(wanted), Some(part)) if wanted.starts_with('{') && !part.is_empty() => arguments.push(part),
            (Some(wanted), Some(part)) if wanted == part => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_is_found_by_method_and_whole_path() {
        let action =
            |method: &'static str, path: &'static str| find(method, path).map(|(route, parts)| (route.action, parts));
        for (method, path, expected) in [
            ("GET", "/", Ok((ApiAction::Page, vec![]))),
            ("GET", "/api/v1/runs", Ok((ApiAction::ListRuns, vec![]))),
            ("POST", "/api/v1/runs", Ok((ApiAction::StartRun, vec![]))),
            ("GET", "/api/v1/runs/a", Ok((ApiAction::ShowRun, vec!["a"]))),
            ("POST", "/api/v1/runs/cancel/cancel", Ok((ApiAction::CancelRun, vec!["cancel"]))),
            ("GET", "/api/v1/sessions/s/events", Ok((ApiAction::ReadSessionEvents, vec!["s"]))),
            ("GET", "/api/v1/sessions/s/attachments/d", Ok((ApiAction::ReadAttachment, vec!["s", "d"]))),
            ("GET", "/api/v1/sessions/%2e%2e", Ok((ApiAction::ShowSession, vec!["%2e%2e"]))),
            ("POST", "/hooks/fire", Ok((ApiAction::ReceiveWebhook, vec!["fire"]))),
            ("GET", "/api/v1/sessions/..", Ok((ApiAction::ShowSession, vec![".."]))),
            ("DELETE", "/api/v1/runs", Err(405)),
            ("HEAD", "/", Err(405)),
            ("GET", "/api/v1/runs/", Err(404)),
            ("GET", "/api/v1/runs/a/", Err(404)),
            ("GET", "/api/v1//runs", Err(404)),
            ("GET", "//", Err(404)),
            ("GET", "/api/v1/runs/a/../b", Err(404)),
            ("GET", "/API/v1/runs", Err(404)),
            ("GET", "*", Err(404)),
            ("GET", "", Err(404)),
        ] {
            let found = action(method, path);
            let found = found.map_err(|problem| problem.response(|_| Vec::new()).status().as_u16());
            assert_eq!(found, expected, "{method} {path}");
        }
    }

    #[test]
    fn only_pages_without_content_of_runs_are_public() {
        let public: Vec<_> = ROUTES.iter().filter(|route| route.is_public).map(|route| route.path).collect();
        // A webhook shows its signature in place of a token.
        assert_eq!(public, ["/", "/healthz", "/openapi.json", "/hooks/{trigger}"]);
        assert!(is_public("/hooks/a") && !is_public("/hooks/") && !is_public("/hooks/a/b"));
        assert!(is_public("/healthz") && !is_public("/healthz/") && !is_public("/api/v1/runs") && !is_public("/none"));
    }
}
