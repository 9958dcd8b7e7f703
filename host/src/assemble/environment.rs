use std::sync::Arc;

/// Looks up an environment variable. The library does not read the environment itself.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;
