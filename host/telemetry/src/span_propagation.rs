use shelly_core::event::SpanDestination;

/// The choice of the destinations that are told which span a request belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SpanPropagation {
    /// None is told.
    #[default]
    None,
    /// These are told: origins such as `https://api.example.com`, and `mcp:NAME` for MCP servers that are programs.
    Listed(Vec<String>),
    /// All are told.
    All,
}

impl SpanPropagation {
    /// Returns `true` if a destination is told.
    pub(crate) fn tells(&self, destination: SpanDestination<'_>) -> bool {
        match (self, destination) {
            // It is one of the person's own hosts, and its run a part of the same trace.
            (_, SpanDestination::Worker) => true,
            (Self::None, _) => false,
            (Self::All, _) => true,
            (Self::Listed(listed), SpanDestination::Server(url)) => {
                let origin = url.origin().ascii_serialization();
                listed.contains(&origin)
            }
            (Self::Listed(listed), SpanDestination::McpProgram(server)) => {
                listed.iter().any(|entry| entry.strip_prefix("mcp:") == Some(server))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_told_by_origin_and_by_name() {
        let listed = SpanPropagation::Listed(vec!["https://api.example.com".into(), "mcp:files".into()]);
        for (url, is_told) in [
            ("https://api.example.com/v1/x?y", true),
            ("https://api.example.com:443/", true),
            ("https://api.example.com:8443/", false),
            ("http://api.example.com/", false),
            ("https://example.com/", false),
            ("https://api.example.com.evil.example/", false),
        ] {
            let url = url::Url::parse(url).unwrap();
            assert_eq!(listed.tells(SpanDestination::Server(&url)), is_told, "{url}");
            assert!(SpanPropagation::All.tells(SpanDestination::Server(&url)));
            assert!(!SpanPropagation::None.tells(SpanDestination::Server(&url)));
        }
        assert!(listed.tells(SpanDestination::McpProgram("files")));
        assert!(!listed.tells(SpanDestination::McpProgram("file")));
        assert!(SpanPropagation::None.tells(SpanDestination::Worker), "a run on another worker is in the same trace");
    }
}
