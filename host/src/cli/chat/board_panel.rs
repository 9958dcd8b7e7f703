//! The open tasks of the board on which the agents at work share their tasks.

use std::sync::Arc;

use shelly_terminal::{
    styled_line::{Style, StyledLine},
    theme::{StyleRole, Theme},
};

use crate::{
    agent::AgentGroup,
    cli::render::{name, one_line},
    error::count,
    limits,
};

/// Shows the open tasks while agents work.
pub struct BoardPanel {
    is_on: bool,
    /// The agents at work; not set if nobody works.
    group: Option<Arc<AgentGroup>>,
    /// The revision of the board at which `tasks` were read.
    revision: Option<u64>,
    tasks: Vec<OpenTask>,
    /// The number of open tasks beyond those in `tasks`.
    more: usize,
}

/// An open task as it is shown.
#[derive(Debug, PartialEq, Eq)]
struct OpenTask {
    state: OpenTaskState,
    title: String,
    owner: Option<String>,
}

/// The state of an open task. Those that matter most come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OpenTaskState {
    InProgress,
    /// Nobody has claimed it yet.
    Free,
    /// Another task must be completed first.
    Blocked,
}

impl Default for BoardPanel {
    fn default() -> Self {
        Self { is_on: true, group: None, revision: None, tasks: Vec::new(), more: 0 }
    }
}

impl BoardPanel {
    /// Turns it on or off.
    pub fn turn(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    /// Shows the board of these agents from now on; without any, nothing.
    pub fn watch(&mut self, group: Option<Arc<AgentGroup>>) {
        *self = Self { is_on: self.is_on, group, ..Self::default() };
    }

    /// Returns the rows for a window of so many rows; none in a small one.
    pub fn rows(&mut self, window_rows: u16, theme: &Theme) -> Vec<StyledLine> {
        if !self.is_on || window_rows < limits::CHAT_BOARD_WINDOW_ROWS {
            return Vec::new();
        }
        self.read();
        let muted = theme.style(StyleRole::Muted);
        let mut rows: Vec<_> = self.tasks.iter().map(|task| task.row(theme)).collect();
        if self.more > 0 {
            let more = count(self.more as u64, "more open task", "more open tasks");
            rows.push(StyledLine::styled(&format!("  and {more}; /tasks lists all"), muted));
        }
        rows
    }

    /// Reads the board, if it has changed.
    fn read(&mut self) {
        let Some(board) = self.group.as_ref().and_then(|group| group.board.as_ref()) else { return };
        let revision = Some(board.revision());
        if std::mem::replace(&mut self.revision, revision) == revision {
            return;
        }
        let tasks = board.list(&Default::default());
        let is_completed = |id: &String| tasks.iter().any(|task| task.id == *id && task.status.as_str() == "completed");
        let open = tasks.iter().filter(|task| !task.status.is_terminal()).map(|task| OpenTask {
            state: match &task.assignee {
                Some(_) => OpenTaskState::InProgress,
                None if task.blocked_by.iter().all(is_completed) => OpenTaskState::Free,
                None => OpenTaskState::Blocked,
            },
            title: one_line(&task.title, limits::LIVE_DETAIL_CHARS),
            owner: task.assignee.as_deref().map(name),
        });
        let mut open: Vec<_> = open.collect();
        // The order of creation stays within each state.
        open.sort_by_key(|task| task.state);
        self.more = open.len().saturating_sub(limits::CHAT_BOARD_TASKS);
        open.truncate(limits::CHAT_BOARD_TASKS);
        self.tasks = open;
    }
}

impl OpenTask {
    fn row(&self, theme: &Theme) -> StyledLine {
        let muted = theme.style(StyleRole::Muted);
        let (mark, of_mark, of_title) = match self.state {
            OpenTaskState::InProgress => ("▸ ", theme.style(StyleRole::ListMarker), Style::new()),
            OpenTaskState::Free => ("○ ", theme.style(StyleRole::ListMarker), Style::new()),
            OpenTaskState::Blocked => ("◌ ", muted, muted),
        };
        let mut row = StyledLine::styled(mark, of_mark);
        row.push(&self.title, of_title);
        if let Some(owner) = &self.owner {
            row.push(&format!(" · {owner}"), muted);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        agent::AgentRegistry,
        state::{NewTask, TaskActor, TaskBoard},
    };

    fn shown(panel: &mut BoardPanel, window_rows: u16) -> Vec<String> {
        panel.rows(window_rows, &Theme::plain()).iter().map(ToString::to_string).collect()
    }

    fn task(title: &str, after: &[&str]) -> NewTask {
        let blocked_by = after.iter().map(|id| (*id).to_owned()).collect();
        NewTask { title: title.into(), blocked_by, ..NewTask::default() }
    }

    #[test]
    fn open_tasks_are_shown_with_state_and_owner() {
        let board = TaskBoard::new();
        let group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_board(board.clone()));
        let mut panel = BoardPanel::default();
        assert!(shown(&mut panel, 40).is_empty(), "nobody works");
        panel.watch(Some(Arc::clone(&group)));
        assert!(shown(&mut panel, 40).is_empty(), "there is no task");
        for new in [task("Read\x1b[2J", &[]), task("Sum", &["task-1"]), task("Write", &[])] {
            board.create(new, TaskActor::Host).unwrap();
        }
        board.claim("task-3", "ada\u{202e}").unwrap();
        let rows = ["▸ Write · ada\\u{202e}", "○ Read\\u{1b}[2J", "◌ Sum"];
        assert_eq!(shown(&mut panel, limits::CHAT_BOARD_WINDOW_ROWS), rows);
        assert!(shown(&mut panel, limits::CHAT_BOARD_WINDOW_ROWS - 1).is_empty(), "a small window");
        panel.turn(false);
        assert!(shown(&mut panel, 40).is_empty());
        panel.watch(Some(Arc::clone(&group)));
        assert!(shown(&mut panel, 40).is_empty(), "it stays off with the next message");
        panel.turn(true);
        board.claim("task-1", "bob").unwrap();
        board.set_status("task-1", crate::state::TaskStatus::Completed, TaskActor::Host).unwrap();
        assert_eq!(shown(&mut panel, 40), ["▸ Write · ada\\u{202e}", "○ Sum"]);
        for at in 0..limits::CHAT_BOARD_TASKS {
            board.create(task(&format!("More {at}"), &[]), TaskActor::Host).unwrap();
        }
        let rows = shown(&mut panel, 40);
        assert_eq!(rows.len(), limits::CHAT_BOARD_TASKS + 1);
        assert_eq!(rows.last().unwrap(), "  and 2 more open tasks; /tasks lists all");
        panel.watch(None);
        assert!(shown(&mut panel, 40).is_empty());
    }
}
