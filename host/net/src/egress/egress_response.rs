use super::{facts::EgressFacts, reply::EgressResponseBody};

/// The head of a response; the body is read from it.
#[derive(Debug)]
pub struct EgressResponse {
    /// The status, 200 to 599.
    pub status: u16,
    /// The headers in order, with names in lower case and duplicates kept. Credentials are redacted; headers of the
    /// connection are removed.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, to be read.
    pub body: EgressResponseBody,
    /// Facts for observers of the plugin.
    pub facts: Box<EgressFacts>,
}
