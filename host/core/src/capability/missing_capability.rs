/// A requested capability that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCapability {
    /// The name in manifest and config.
    pub capability: String,
    /// The config line that would grant it.
    pub line: String,
}
