//! One build: its project, its environment, and the tools that it runs.

use std::{fs, path::Path, process::Command};

use shelly_core::limits;

use crate::{
    author_error::AuthorError,
    build_cancellation::BuildCancellation,
    encoding::{AdapterMemory, component_of_module, is_component},
    failure_hints,
    plugin_project::PluginProject,
    project_wit::ProjectWit,
    tool_run::{ToolStream, run_tool},
    toolchain::BuildEnvironment,
};

/// A build of one project.
pub struct PluginBuild<'a> {
    pub(super) project: &'a PluginProject,
    pub(super) environment: &'a BuildEnvironment,
    pub(super) is_release: bool,
    /// Ends the tools that run.
    pub(super) cancellation: Option<&'a BuildCancellation>,
    /// Shows a line of a tool, which may contain anything.
    show: &'a mut dyn FnMut(&str),
}

/// A component, and the WIT whose comments belong into it.
pub(super) type BuiltComponent = (Vec<u8>, Option<ProjectWit>);

impl<'a> PluginBuild<'a> {
    /// Creates a build. `show` is called with each line that a tool writes.
    pub fn new(
        project: &'a PluginProject,
        environment: &'a BuildEnvironment,
        is_release: bool,
        show: &'a mut dyn FnMut(&str),
    ) -> Self {
        Self { project, environment, is_release, cancellation: None, show }
    }

    /// Lets another thread end the build. Its tools then run in process groups of their own, which Ctrl-C at a terminal does
    /// not reach: the caller ends them.
    pub fn cancelled_by(self, cancellation: &'a BuildCancellation) -> Self {
        Self { cancellation: Some(cancellation), ..self }
    }

    /// Shows a line of the build itself.
    pub(super) fn note(&mut self, line: &str) {
        (self.show)(line);
    }

    /// Runs a tool in the project's folder and shows what it writes.
    ///
    /// # Errors
    ///
    /// [`AuthorError::ToolFailed`] with the hint that its last lines lead to.
    pub(super) fn run_tool(&mut self, command: &mut Command) -> Result<(), AuthorError> {
        self.run_tool_with(command, &mut |_, _| false)
    }

    /// Runs a tool as [`run_tool`](Self::run_tool) does. A line for which `takes` returns `true` is not shown.
    pub(super) fn run_tool_with(
        &mut self,
        command: &mut Command,
        takes: &mut dyn FnMut(ToolStream, &str) -> bool,
    ) -> Result<(), AuthorError> {
        command.current_dir(&self.project.folder);
        let show = &mut self.show;
        let exit = run_tool(command, self.cancellation, &mut |stream, line| {
            let is_taken = takes(stream, line);
            if !is_taken {
                show(line);
            }
            !is_taken
        })?;
        if exit.status.success() {
            return Ok(());
        }
        let program = Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (cause, hint) = failure_hints::of_tool(self.project, &exit.last);
        Err(AuthorError::ToolFailed { program, status: exit.status.code(), cause, hint })
    }

    /// Makes a component of what a compiler has written: of a core module for this WIT, or of one that contains its world.
    pub(super) fn component_of(
        &self,
        output: &Path,
        wit: Option<&ProjectWit>,
        memory: AdapterMemory,
    ) -> Result<Vec<u8>, AuthorError> {
        let bytes = read(output, limits::COMPONENT_BYTES)?;
        if is_component(&bytes) {
            return Ok(bytes);
        }
        component_of_module(&bytes, wit, memory).map_err(|cause| {
            let hint = failure_hints::of_module(self.project.language, &cause);
            let world = wit.map_or("of the module", ProjectWit::world_name).to_owned();
            AuthorError::Module { world, cause, hint }
        })
    }
}

/// Reads a file that has at most so many bytes.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>, AuthorError> {
    let size = fs::metadata(path).map_err(AuthorError::file("read", path))?.len();
    if size > most {
        return Err(AuthorError::TooLarge { path: path.into(), size, most });
    }
    fs::read(path).map_err(AuthorError::file("read", path))
}
