use super::ToolBox;

/// Tools that come and go while agents work.
pub trait ToolSource: Send + Sync {
    /// Returns the tools that exist now. While nothing changes, it returns [the same object](ToolBox::is_same).
    fn tools(&self) -> ToolBox;
}
