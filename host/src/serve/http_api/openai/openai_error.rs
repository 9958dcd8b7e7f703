use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::{
    error::{ErrorKind, Report, cut, legible},
    limits,
    net::http_server::{AccessDenied, ServedResponse, json_response},
    serve::{
        hosted_runs::{RunHost, RunHostError},
        http_api::problem::Problem,
    },
};

/// The header with which a server tells OpenAI's clients whether to repeat a request.
const SHOULD_RETRY: &str = "x-should-retry";

/// A refusal or a failure, in the form of OpenAI's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenAiError {
    /// The failure, its causes, and a way to mend it.
    pub message: String,
    /// The group of errors.
    #[serde(rename = "type")]
    pub group: &'static str,
    /// The parameter that is wrong.
    pub param: Option<String>,
    /// The error, for programs.
    pub code: Option<&'static str>,
    /// The status of the answer.
    #[serde(skip)]
    pub status: StatusCode,
    #[serde(skip)]
    retry_after: Option<Duration>,
    /// `true` if clients that repeat failed requests by themselves must not repeat this one: the agents would work once
    /// more.
    #[serde(skip)]
    is_final: bool,
}

/// The body of an answer with an error.
#[derive(Debug, Serialize)]
struct OpenAiErrorBody<'a> {
    error: &'a OpenAiError,
}

impl OpenAiError {
    /// Returns the refusal of a request that is wrong in itself.
    pub fn invalid(param: Option<String>, message: impl Into<String>) -> Box<Self> {
        Box::new(Self::plain(param, message.into()))
    }

    fn plain(param: Option<String>, message: String) -> Self {
        Self {
            message,
            group: "invalid_request_error",
            param,
            code: None,
            status: StatusCode::BAD_REQUEST,
            retry_after: None,
            is_final: false,
        }
    }

    /// Returns the refusal of a parameter that the host does not have.
    pub fn unsupported(param: impl Into<String>, why: &str) -> Box<Self> {
        let param = param.into();
        let message = format!("unsupported parameter `{param}`: {why}");
        Box::new(Self { code: Some("unsupported_parameter"), ..Self::plain(Some(param), message) })
    }

    /// Returns the refusal of a model that is no agent; `known` are the names of those that are.
    pub fn no_model(model: &str, known: &[String]) -> Box<Self> {
        let model = cut(&legible(model), limits::NAME_SHOWN_CHARS);
        let message = format!("there is no agent or team `{model}`; use one of {}", known.join(", "));
        Box::new(Self {
            code: Some("model_not_found"),
            status: StatusCode::NOT_FOUND,
            ..Self::plain(Some("model".into()), message)
        })
    }

    /// Returns the refusal of a response that cannot be continued.
    pub fn no_response(why: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            code: Some("previous_response_not_found"),
            ..Self::plain(Some("previous_response_id".into()), why.into())
        })
    }

    /// Returns the failure of a run.
    pub fn failed(report: &Report) -> Box<Self> {
        let status = match report.kind {
            ErrorKind::Provider => StatusCode::BAD_GATEWAY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Problem::of_report(report);
        Box::new(Self {
            group: "server_error",
            code: Some(problem.code()),
            status,
            is_final: true,
            ..Self::plain(None, problem.sentence())
        })
    }

    /// Returns the error for a run that ended without an answer and without a failure.
    pub fn ended(message: &str, code: &'static str, status: StatusCode) -> Box<Self> {
        Box::new(Self {
            group: "server_error",
            code: Some(code),
            status,
            is_final: true,
            ..Self::plain(None, message.to_owned())
        })
    }

    /// Returns the answer, without credentials.
    pub fn response(&self, host: &RunHost) -> ServedResponse {
        let mut response = json_response(self.status, self.data(host));
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if self.is_final {
            headers.insert(header::HeaderName::from_static(SHOULD_RETRY), HeaderValue::from_static("false"));
        }
        response
    }

    /// Returns the error as JSON, without credentials.
    pub fn data(&self, host: &RunHost) -> Vec<u8> {
        host.clean_json(&OpenAiErrorBody { error: self })
    }
}

impl From<Box<Problem>> for Box<OpenAiError> {
    fn from(problem: Box<Problem>) -> Self {
        let status = problem.status();
        let group = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let code = match problem.code() {
            "token" => "invalid_api_key",
            "too_many" => "rate_limit_exceeded",
            code => code,
        };
        Box::new(OpenAiError {
            group,
            code: Some(code),
            status,
            retry_after: problem.retry_after(),
            // The same request would find the same conflict.
            is_final: status == StatusCode::CONFLICT,
            ..OpenAiError::plain(None, problem.sentence())
        })
    }
}

impl From<RunHostError> for Box<OpenAiError> {
    fn from(error: RunHostError) -> Self {
        Box::<Problem>::from(error).into()
    }
}

impl From<AccessDenied> for Box<OpenAiError> {
    fn from(denied: AccessDenied) -> Self {
        Box::<Problem>::from(denied).into()
    }
}
