//! Undoes file changes of a session.

use clap::Args;

use super::{session_project_args::SessionProjectArgs, times::when};
use crate::{
    app,
    change::UndoableChange,
    cli::{
        ask::{self, Consent, ConsentPrompt, coloured},
        command_runtime::runtime,
        render::{name, print, tell, warn},
        session_name::named,
        trust,
    },
    error::{ErrorKind, Report},
};

/// Undo what a session has changed in files: the newest changes that are not undone.
///
/// What would change is shown, and you are asked. Where somebody has changed a file since, nothing of these changes is undone.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session undo
  shelly-host session undo --all 20261121")]
pub struct SessionUndoArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// Undo all of them, one result of a tool after the other.
    #[arg(long)]
    all: bool,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// The session: its name or the beginning of it; without it, and for `last`, the newest.
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
                    1 => ", and the one that came after them is undone",
                    _ => ", and those that came after them are undone",
                };
                Report::new(ErrorKind::Run, format!("what the session `{id}` has changed cannot be undone"))
                    .cause(cause)
                    .hint(format!(
                        "nothing of these changes was undone{before}; shelly-host session show says what was done"
                    ))
            };
            let change = last.map_err(cannot)?;
            self.consented(&change)?;
            change.make().map_err(|error| cannot(error.to_string()))?;
            undone += 1;
        }
        match undone {
            0 => print(&format!("{} has changed nothing that is not undone", name(&id)))?,
            1 => print("undone")?,
            count => print(&format!("{count} changes are undone"))?,
        }
        Ok(0)
    }

    /// Shows the changes and asks for consent.
    fn consented(&self, change: &UndoableChange) -> Result<(), Report> {
        let refused = |cause: String| Report::new(ErrorKind::Run, "nothing was undone").cause(cause);
        let shown = change
            .shown()
            .map_err(|error| refused(error.to_string()).hint("put it back as it was, or take it back by hand"))?;
        let when = when(change.at());
        tell(&format!("what `{}` did at {when} (UTC):\n{}", name(change.tool()), coloured(&shown)));
        if self.yes {
            return Ok(());
        }
        if !ask::is_attended() {
            return Err(
                Report::new(ErrorKind::Usage, "nobody is there to say yes").hint("say it beforehand with --yes")
            );
        }
        match runtime()?.block_on(ask::trust("", ConsentPrompt::Undo)) {
            Consent::Yes => Ok(()),
            Consent::Once | Consent::No => Err(refused("you did not say yes".into())),
        }
    }
}
