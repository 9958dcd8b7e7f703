use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    agent::SendError,
    approval::AnswerError,
    error::{ErrorKind, Report, RequestObstacle},
    limits,
    net::http_server::{AccessDenied, BodyError, ServedResponse, bytes_response},
    serve::hosted_runs::RunHostError,
};

/// A refusal, as RFC 9457 says.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: `code` says which problem it is.
    #[serde(rename = "type")]
    problem_type: &'static str,
    /// The failure, in one line.
    title: String,
    /// The status of the answer; 0 for the failure of a run.
    status: u16,
    /// The kind of problem, for programs.
    code: &'static str,
    /// The causes, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
    /// A way to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
    #[serde(skip)]
    retry_after: Option<Duration>,
    #[serde(skip)]
    allow: Option<String>,
}

/// The result of handling a request.
pub(super) type ApiResult = Result<ServedResponse, Box<Problem>>;

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, title: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            problem_type: "about:blank",
            title: title.into(),
            status: status.as_u16(),
            code,
            causes: Vec::new(),
            mend: None,
            retry_after: None,
            allow: None,
        })
    }

    /// Returns the failure, in one line.
    pub fn title(&self) -> &str {
        &self.title
    }

    pub fn mend(mut self: Box<Self>, mend: impl Into<String>) -> Box<Self> {
        self.mend = Some(mend.into());
        self
    }

    pub fn cause(mut self: Box<Self>, cause: impl Into<String>) -> Box<Self> {
        self.causes.push(cause.into());
        self
    }

    fn retry(mut self: Box<Self>, after: Duration) -> Box<Self> {
        self.retry_after = Some(after);
        self
    }

    /// Returns the refusal of a request that is wrong in itself.
    pub fn bad_request(title: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", title)
    }

    /// Returns the refusal of a request for something that is not there.
    pub fn not_found(title: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::NOT_FOUND, "not_found", title)
    }

    /// Returns the refusal of a request that can be served when others have ended.
    pub fn too_many(title: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", title).retry(limits::SERVE_RETRY_AFTER)
    }

    /// Returns the refusal of a request that can be served later, whoever sends it.
    pub fn unavailable(title: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", title).retry(limits::SERVE_RETRY_AFTER)
    }

    /// Returns the refusal of a method that the path does not have.
    pub fn method(allowed: String) -> Box<Self> {
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", "the path does not have this method");
        problem.mend = Some(format!("use {allowed}"));
        problem.allow = Some(allowed);
        problem
    }

    /// Returns the failure of a run, or of something that it needs.
    pub fn of_report(report: &Report) -> Box<Self> {
        let code = match report.kind {
            ErrorKind::Run => "run",
            ErrorKind::Usage => "usage",
            ErrorKind::Plugin => "plugin",
            ErrorKind::Provider => "provider",
            ErrorKind::Bug => "bug",
        };
        let mut problem = Self::new(StatusCode::OK, code, report.message.clone());
        problem.status = 0;
        problem.causes.clone_from(&report.causes);
        problem.mend.clone_from(&report.hint);
        problem
    }

    /// Returns the refusal of a request that names what cannot be used.
    pub fn unprocessable(report: &Report) -> Box<Self> {
        Self::answer_of(report, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable")
    }

    /// Returns the refusal of a run that cannot begin, or of a session that cannot be used. Its status says who can mend it:
    /// the client, who names something else or tries again later, or whoever runs the server.
    pub fn refusal(report: &Report) -> Box<Self> {
        let (status, code) = match (report.obstacle, report.kind) {
            (Some(RequestObstacle::InUse), _) => (StatusCode::CONFLICT, "conflict"),
            (Some(RequestObstacle::Full), _) => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            (Some(RequestObstacle::Unavailable), _) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            (None, ErrorKind::Usage) => (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable"),
            (None, ErrorKind::Provider) => (StatusCode::BAD_GATEWAY, "provider"),
            (None, ErrorKind::Plugin) => (StatusCode::INTERNAL_SERVER_ERROR, "plugin"),
            (Some(RequestObstacle::Setup), _) | (None, ErrorKind::Run | ErrorKind::Bug) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
        };
        let problem = Self::answer_of(report, status, code);
        match report.obstacle {
            Some(RequestObstacle::Unavailable) => problem.retry(limits::SERVE_RETRY_AFTER),
            _ => problem,
        }
    }

    /// Returns the failure of something that the server itself needs for the answer.
    pub fn internal(report: &Report) -> Box<Self> {
        Self::answer_of(report, StatusCode::INTERNAL_SERVER_ERROR, "internal")
    }

    fn answer_of(report: &Report, status: StatusCode, code: &'static str) -> Box<Self> {
        let mut problem = Self::of_report(report);
        problem.status = status.as_u16();
        problem.code = code;
        problem
    }

    /// Returns the status of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the kind of problem.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the time after which the same request may succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the failure with its causes and a way to mend it, in one line.
    pub fn sentence(&self) -> String {
        let mut sentence = std::iter::once(&self.title).chain(&self.causes).cloned().collect::<Vec<_>>().join(": ");
        if let Some(mend) = &self.mend {
            sentence.push_str("; ");
            sentence.push_str(mend);
        }
        sentence
    }

    /// Returns the answer.
    pub fn response(&self, json: impl FnOnce(&Self) -> Vec<u8>) -> ServedResponse {
        let mut response = bytes_response(self.status(), "application/problem+json", json(self));
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if let Some(allow) = self.allow.as_ref().and_then(|allow| HeaderValue::try_from(allow).ok()) {
            headers.insert(header::ALLOW, allow);
        }
        response
    }
}

impl From<RunHostError> for Box<Problem> {
    fn from(error: RunHostError) -> Self {
        let title = error.to_string();
        let conflict = |title| Problem::new(StatusCode::CONFLICT, "conflict", title);
        match error {
            RunHostError::Busy { .. } => Problem::too_many(title).mend("try again when a run has ended, or cancel one"),
            RunHostError::TooManyWatchers => Problem::too_many(title).mend("close a stream of events"),
            RunHostError::Stopping => {
                Problem::unavailable(title).mend("try again when the server has been started again")
            }
            RunHostError::NoRun { .. } => Problem::not_found(title)
                .mend("list the runs with GET /api/v1/runs; the sessions of older ones are in GET /api/v1/sessions"),
            RunHostError::SessionInUse { .. } => {
                conflict(title).mend("wait until the run in it has ended, or name another session")
            }
            RunHostError::NotBegun(report) => Problem::refusal(&report),
            RunHostError::Cancelled | RunHostError::NobodyAsked => conflict(title),
            RunHostError::Send(SendError::NotWorking) => {
                conflict(title).mend("give the session of the run another task with POST /api/v1/runs")
            }
            RunHostError::Send(SendError::Full) => {
                Problem::too_many(title).mend("try again when the agent has read some")
            }
            RunHostError::Send(SendError::Unfit) => Problem::bad_request(title),
            RunHostError::Send(SendError::Unrecorded) => {
                Problem::unavailable(title).mend("look at the run: it ends if its session cannot be written")
            }
            RunHostError::Answer(AnswerError::NotOpen { .. }) => {
                Problem::not_found(title).mend("GET /api/v1/questions lists the open questions")
            }
            RunHostError::Answer(AnswerError::TrustIsFull) => conflict(title),
            RunHostError::Answer(AnswerError::NotKept(_)) => {
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", title)
            }
            RunHostError::Answer(_) => Problem::bad_request(title),
        }
    }
}

impl From<BodyError> for Box<Problem> {
    fn from(error: BodyError) -> Self {
        let code = match error {
            BodyError::TooLarge { .. } => "too_large",
            BodyError::Unreadable => "bad_request",
            BodyError::TooSlow => "timeout",
        };
        Problem::new(error.status(), code, error.to_string())
    }
}

impl From<AccessDenied> for Box<Problem> {
    fn from(denied: AccessDenied) -> Self {
        match denied {
            AccessDenied::Token => Problem::new(denied.status(), "token", denied.to_string()).mend(
                "send `Authorization: Bearer TOKEN`; the server printed the token at its start, or has it in a file",
            ),
            AccessDenied::Host | AccessDenied::Origin => Problem::new(denied.status(), "forbidden", denied.to_string()),
        }
    }
}
