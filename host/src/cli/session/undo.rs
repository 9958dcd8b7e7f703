//! Undoes file changes of a session.

use clap::Args;

use super::{session_project_args::SessionProjectArgs, times::when};
use crate::{
    app,
    change::UndoableChange,
    cli::{
        ask::{self, Consent, ConsentPrompt, coloured},
        command_runtime::runtime,
        render::{DIM, PLAIN, name, print, tell, warn},
        session_name::named,
        session_target::boards_that_stay,
        trust,
    },
    error::{ErrorKind, Report},
};

/// Undo file changes of a session: the newest change set that is not undone yet.
///
/// A change set is what one tool result changed. It is shown, and you are asked. If one of its files has been modified
/// since, nothing of the change set is undone. Task boards and blackboards stay as they are.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session undo
  shelly-host session undo --all 20261121")]
pub struct SessionUndoArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// Undo all change sets, the newest first.
    #[arg(long)]
    all: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// The session: its name, the beginning of its name, or `last` for the newest.
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
}

impl SessionUndoArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let store = self.project.store_with(&self.id)?;
        let id = named(&store, &self.id)?;
        let (history, warnings) = app::changed(&store, &id, trust::own_key());
        warnings.iter().for_each(|warning| warn(warning));
        let mut undone = 0;
        while let Some(last) = history.last().filter(|_| self.all || undone == 0) {
            let cannot = |cause: String| {
                let before = match undone {
                    0 => "",
                    1 => "; the later change set has been undone",
                    _ => "; the later change sets have been undone",
                };
                Report::new(ErrorKind::Run, format!("cannot undo the changes of the session `{id}`")).cause(cause).hint(
                    format!(
                        "nothing of this change set was undone{before}; to see the changes use shelly-host session show"
                    ),
                )
            };
            let change = last.map_err(cannot)?;
            self.consented(&change)?;
            change.make().map_err(|error| cannot(error.to_string()))?;
            undone += 1;
        }
        match undone {
            0 => print(&format!("nothing to undo in the session {}", name(&id)))?,
            1 => print("undone")?,
            count => print(&format!("undone: {count} change sets"))?,
        }
        if undone > 0
            && let Some(remark) = boards_that_stay(&store, &id)
        {
            tell(&format!("{DIM}{remark}{PLAIN}\n"));
        }
        Ok(0)
    }

    /// Shows the changes and asks for consent.
    fn consented(&self, change: &UndoableChange) -> Result<(), Report> {
        let refused = |cause: String| Report::new(ErrorKind::Run, "nothing was undone").cause(cause);
        let shown = change.shown().map_err(|error| {
            refused(error.to_string())
                .hint("keep it as it is, or revert the change by hand: shelly-host session show lists the changes")
        })?;
        let when = when(change.at());
        tell(&format!("change of `{}` at {when} (UTC):\n{}", name(change.tool()), coloured(&shown)));
        if self.yes {
            return Ok(());
        }
        if !ask::is_attended() {
            return Err(Report::new(ErrorKind::Usage, "no terminal to ask on").hint("undo without asking with --yes"));
        }
        match runtime()?.block_on(ask::trust("", ConsentPrompt::Undo)) {
            Consent::Yes => Ok(()),
            Consent::Once | Consent::No => Err(refused("you declined".into())),
        }
    }
}
