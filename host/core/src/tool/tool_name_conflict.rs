/// Two tools with equal or similar names were put into one toolbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct ToolNameConflict {
    /// The name of the refused tool.
    pub name: String,
    /// The name of the existing tool.
    pub there: String,
    /// The origin of the existing tool.
    pub first: String,
    /// The origin of the refused tool.
    pub second: String,
}

impl ToolNameConflict {
    fn message(&self) -> String {
        let Self { name, there, first, second } = self;
        match name == there {
            true => format!("two tools are called `{name}`: one of `{first}`, one of `{second}`"),
            false => format!("`{name}` of `{second}` looks like `{there}` of `{first}`"),
        }
    }
}
