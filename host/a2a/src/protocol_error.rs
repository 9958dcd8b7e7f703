use serde_json::{Value, json};

/// The kind of a protocol error: those of JSON-RPC, and those of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum A2aErrorKind {
    /// The body is no JSON.
    Parse,
    /// The body is no request.
    InvalidRequest,
    /// There is no such operation.
    MethodNotFound,
    /// The parameters are wrong.
    InvalidParams,
    /// The server failed.
    Internal,
    /// No task has this id.
    TaskNotFound,
    /// The task is over and cannot be cancelled.
    TaskNotCancelable,
    /// The server sends no updates to addresses of clients.
    PushNotificationNotSupported,
    /// The server does not do this, or not now.
    UnsupportedOperation,
    /// The server does not take this content.
    ContentTypeNotSupported,
    /// The other side sent an answer that is none.
    InvalidAgentResponse,
    /// The server speaks another version.
    VersionNotSupported,
}

/// The domain of the errors of the protocol.
const DOMAIN: &str = "a2a-protocol.org";

impl A2aErrorKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Parse,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotificationNotSupported,
        Self::UnsupportedOperation,
        Self::ContentTypeNotSupported,
        Self::InvalidAgentResponse,
        Self::VersionNotSupported,
    ];

    /// Returns the code in JSON-RPC.
    pub fn code(self) -> i64 {
        match self {
            Self::Parse => -32_700,
            Self::InvalidRequest => -32_600,
            Self::MethodNotFound => -32_601,
            Self::InvalidParams => -32_602,
            Self::Internal => -32_603,
            Self::TaskNotFound => -32_001,
            Self::TaskNotCancelable => -32_002,
            Self::PushNotificationNotSupported => -32_003,
            Self::UnsupportedOperation => -32_004,
            Self::ContentTypeNotSupported => -32_005,
            Self::InvalidAgentResponse => -32_006,
            Self::VersionNotSupported => -32_009,
        }
    }

    /// Returns the kind of this code; any other code is [`Self::Internal`].
    pub fn of_code(code: i64) -> Self {
        Self::ALL.into_iter().find(|kind| kind.code() == code).unwrap_or(Self::Internal)
    }

    /// Returns the status of the answer over HTTP+JSON.
    pub fn http_status(self) -> u16 {
        match self {
            Self::TaskNotFound | Self::MethodNotFound => 404,
            Self::Internal | Self::InvalidAgentResponse => 500,
            _ => 400,
        }
    }

    /// Returns the name of that status in `google.rpc`.
    fn status_name(self) -> &'static str {
        match self {
            Self::TaskNotFound | Self::MethodNotFound => "NOT_FOUND",
            Self::Internal | Self::InvalidAgentResponse => "INTERNAL",
            Self::Parse | Self::InvalidRequest | Self::InvalidParams | Self::ContentTypeNotSupported => {
                "INVALID_ARGUMENT"
            }
            Self::TaskNotCancelable
            | Self::PushNotificationNotSupported
            | Self::UnsupportedOperation
            | Self::VersionNotSupported => "FAILED_PRECONDITION",
        }
    }

    /// Returns the reason in the details of an error; `None` for an error of JSON-RPC itself.
    fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::Parse | Self::InvalidRequest | Self::MethodNotFound | Self::InvalidParams | Self::Internal => {
                return None;
            }
            Self::TaskNotFound => "TASK_NOT_FOUND",
            Self::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Self::PushNotificationNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Self::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Self::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::InvalidAgentResponse => "INVALID_AGENT_RESPONSE",
            Self::VersionNotSupported => "VERSION_NOT_SUPPORTED",
        })
    }
}

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct A2aError {
    /// The kind.
    pub kind: A2aErrorKind,
    /// The failure in words, with a way to mend it.
    pub message: String,
    /// Facts for programs, by name.
    pub facts: Vec<(&'static str, String)>,
}

impl A2aError {
    /// Returns an error without facts.
    pub fn new(kind: A2aErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), facts: Vec::new() }
    }

    /// Returns an error about the parameters.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(A2aErrorKind::InvalidParams, message)
    }

    /// Adds a fact for programs.
    #[must_use]
    pub fn with_fact(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((name, value.into()));
        self
    }

    /// Returns the error as JSON-RPC writes it.
    pub fn to_rpc(&self) -> Value {
        let mut error = json!({ "code": self.kind.code(), "message": self.message });
        let details = self.details();
        if !details.is_empty() {
            error["data"] = details.into();
        }
        error
    }

    /// Returns the body of the answer over HTTP+JSON.
    pub fn to_status(&self) -> Value {
        let mut error = json!({
            "code": self.kind.http_status(),
            "status": self.kind.status_name(),
            "message": self.message,
        });
        let details = self.details();
        if !details.is_empty() {
            error["details"] = details.into();
        }
        json!({ "error": error })
    }

    fn details(&self) -> Vec<Value> {
        let Some(reason) = self.kind.reason() else { return Vec::new() };
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": DOMAIN,
        });
        if !self.facts.is_empty() {
            let facts = self.facts.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.clone())));
            info["metadata"] = Value::Object(facts.collect());
        }
        vec![info]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_written_as_each_binding_wants_it() {
        let error = A2aError::new(A2aErrorKind::TaskNotFound, "there is no task `t`").with_fact("taskId", "t");
        let info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "TASK_NOT_FOUND",
            "domain": "a2a-protocol.org",
            "metadata": {"taskId": "t"},
        });
        assert_eq!(error.to_rpc(), json!({"code": -32001, "message": "there is no task `t`", "data": [info]}));
        let status = json!({"code": 404, "status": "NOT_FOUND", "message": "there is no task `t`", "details": [info]});
        assert_eq!(error.to_status(), json!({"error": status}));
        let plain = A2aError::invalid_params("no");
        assert_eq!(plain.to_rpc(), json!({"code": -32602, "message": "no"}));
        assert_eq!(plain.to_status()["error"]["code"], 400);
    }

    #[test]
    fn code_names_one_kind() {
        for kind in A2aErrorKind::ALL {
            assert_eq!(A2aErrorKind::of_code(kind.code()), kind);
        }
        assert_eq!(A2aErrorKind::of_code(-1), A2aErrorKind::Internal);
    }
}
