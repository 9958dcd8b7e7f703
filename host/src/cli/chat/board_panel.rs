//! The open tasks of the board of the agents at work, and the newest values of their blackboards.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

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

/// Shows the open tasks and the blackboards while agents work.
pub struct BoardPanel {
    is_on: bool,
    /// The agents at work; not set if nobody works.
    group: Option<Arc<AgentGroup>>,
    /// The revision of the board at which `tasks` were read.
    revision: Option<u64>,
    tasks: Vec<OpenTask>,
    /// The number of open tasks beyond those in `tasks`.
    more: usize,
    /// The revisions of the blackboards, by namespace, at which `values` were read.
    value_revisions: BTreeMap<String, u64>,
    values: Vec<SharedValue>,
    /// The number of values beyond those in `values`.
    more_values: usize,
}

/// A value of a blackboard as it is shown.
#[derive(Debug, PartialEq, Eq)]
struct SharedValue {
    /// The namespace of the blackboard and the key.
    place: String,
    json: String,
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
        Self {
            is_on: true,
            group: None,
            revision: None,
            tasks: Vec::new(),
            more: 0,
            value_revisions: BTreeMap::new(),
            values: Vec::new(),
            more_values: 0,
        }
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
        self.read_tasks();
        self.read_values();
        let muted = theme.style(StyleRole::Muted);
        let mut rows: Vec<_> = self.tasks.iter().map(|task| task.row(theme)).collect();
        if self.more > 0 {
            let more = count(self.more as u64, "more open task", "more open tasks");
            rows.push(StyledLine::styled(&format!("  and {more}; /tasks lists all"), muted));
        }
        rows.extend(self.values.iter().map(|value| value.row(theme)));
        if self.more_values > 0 {
            let more = count(self.more_values as u64, "more value", "more values");
            rows.push(StyledLine::styled(&format!("  and {more}; /board lists all"), muted));
        }
        rows
    }

    /// Reads the blackboards, if one of them has changed.
    fn read_values(&mut self) {
        let blackboards = self.group.as_ref().map(|group| group.blackboards()).unwrap_or_default();
        let revisions: BTreeMap<_, _> =
            blackboards.iter().map(|(namespace, board)| (namespace.clone(), board.revision())).collect();
        if self.value_revisions == revisions {
            return;
        }
        self.value_revisions = revisions;
        let mut ranked = Vec::new();
        for (namespace, board) in &blackboards {
            let mut entries: Vec<_> = board.snapshot().into_iter().collect();
            entries.sort_by_key(|(_, entry)| Reverse(entry.revision));
            let values = entries.into_iter().map(|(key, entry)| SharedValue {
                place: format!("{}/{}", name(namespace), name(&key)),
                json: one_line(entry.value.get(), limits::LIVE_DETAIL_CHARS),
            });
            ranked.extend(values.enumerate());
        }
        // Each blackboard has its newest value before another has its second one.
        ranked.sort_by_key(|(age, _)| *age);
        self.more_values = ranked.len().saturating_sub(limits::CHAT_BOARD_VALUES);
        self.values = ranked.into_iter().take(limits::CHAT_BOARD_VALUES).map(|(_, value)| value).collect();
    }

    /// Reads the board, if it has changed.
    fn read_tasks(&mut self) {
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

impl SharedValue {
    fn row(&self, theme: &Theme) -> StyledLine {
        let muted = theme.style(StyleRole::Muted);
        let mut row = StyledLine::styled("▪ ", theme.style(StyleRole::ListMarker));
        row.push(&self.place, Style::new());
        row.push(&format!(" {}", self.json), muted);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        agent::AgentRegistry,
        state::{Blackboard, NewTask, TaskActor, TaskBoard},
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

    #[test]
    fn newest_values_of_each_blackboard_are_shown() {
        let group = Arc::new(AgentGroup::new(AgentRegistry::new()));
        let (plan, team) = (Blackboard::new(), Blackboard::new());
        let mut panel = BoardPanel::default();
        panel.watch(Some(Arc::clone(&group)));
        assert!(shown(&mut panel, 40).is_empty(), "there is no blackboard");
        group.add_blackboard("plan", &plan);
        group.add_blackboard("team", &team);
        plan.set("goal", "to\u{1b}[2J win").unwrap();
        plan.set("steps", &[1, 2]).unwrap();
        team.set("lead", "ada").unwrap();
        let rows = ["▪ plan/steps [1,2]", "▪ team/lead \"ada\"", "▪ plan/goal \"to\\u001b[2J win\""];
        assert_eq!(shown(&mut panel, limits::CHAT_BOARD_WINDOW_ROWS), rows);
        team.delete("lead");
        plan.set("goal", &7).unwrap();
        assert_eq!(shown(&mut panel, 40), ["▪ plan/goal 7", "▪ plan/steps [1,2]"]);
        for at in 0..limits::CHAT_BOARD_VALUES {
            team.set(&format!("key-{at}"), &at).unwrap();
        }
        let rows = shown(&mut panel, 40);
        assert_eq!(rows.len(), limits::CHAT_BOARD_VALUES + 1);
        assert_eq!(rows[..2], ["▪ plan/goal 7", "▪ team/key-3 3"]);
        assert_eq!(rows.last().unwrap(), "  and 2 more values; /board lists all");
        panel.turn(false);
        assert!(shown(&mut panel, 40).is_empty());
    }
}
