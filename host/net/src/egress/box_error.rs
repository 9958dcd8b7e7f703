use std::error::Error;

/// Any error, as hyper and tower hand it on.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;
