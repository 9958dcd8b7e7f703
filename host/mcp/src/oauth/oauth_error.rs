use shelly_core::error::Fault;

/// The reason why there is no token.
#[derive(Debug)]
pub(crate) enum OAuthError {
    /// A person must act; the text says how.
    Denied(String),
    /// A failure that may be transient, or whose cause is unknown.
    Fault(Fault),
}

impl From<Fault> for OAuthError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Denied { message } => Self::Denied(message),
            fault => Self::Fault(fault),
        }
    }
}
