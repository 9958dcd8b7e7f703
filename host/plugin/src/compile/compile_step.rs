/// The last step that the compiler takes with a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileStep {
    /// Validate: enough to inspect the component.
    Validate,
    /// Validate and compile: enough to run the component.
    Compile,
}
