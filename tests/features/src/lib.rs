//! Empty: only the features in its `Cargo.toml` matter.
