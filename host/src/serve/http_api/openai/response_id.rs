use std::fmt;

/// The id of a response that can be continued: the session, and the number of its runs.
///
/// It names the session itself, so that a conversation goes on after the server was started anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseId {
    /// The name of the session.
    pub session: String,
    /// The number of runs in the session, up to the one of this response.
    pub runs: usize,
}

const PREFIX: &str = "resp_";

impl ResponseId {
    /// Parses an id; `None` if it names no session.
    pub fn parse(id: &str) -> Option<Self> {
        let (runs, session) = id.strip_prefix(PREFIX)?.split_once('_')?;
        let is_number = runs.bytes().all(|byte| byte.is_ascii_digit()) && !runs.starts_with('0');
        let runs = runs.parse().ok().filter(|_| is_number)?;
        (!session.is_empty()).then(|| Self { session: session.to_owned(), runs })
    }

    /// Returns the id of a response that cannot be continued, from that of its run.
    pub fn not_stored(run: &str) -> String {
        format!("{PREFIX}{run}")
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_{}", self.runs, self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_names_the_session_and_its_runs() {
        let id = ResponseId { session: "my_session-1".into(), runs: 12 };
        assert_eq!(id.to_string(), "resp_12_my_session-1");
        assert_eq!(ResponseId::parse(&id.to_string()), Some(id));
        let not_stored = ResponseId::not_stored("run-19ac-5d1e02aa");
        for none in [&*not_stored, "", "resp_", "resp_1", "resp_1_", "resp_+1_s", "resp_01_s", "resp__s", "msg_1_s"] {
            assert_eq!(ResponseId::parse(none), None, "{none}");
        }
    }
}
