//! The tasks of a trial, and what comes of them without faults.

/// The depth of the lowest agent of a delegation.
pub const LOWEST: u32 = 3;

/// The number of tasks that each board has.
pub const BOARD_TASKS: usize = 3;

/// The agents that a worker runs itself, by their depth.
pub const AGENTS: [&str; 4] = ["lead", "middle", "inner", "leaf"];

/// The agents that a worker with their label runs, whoever starts them, and their parts in the tasks.
pub const PLACED: [PlacedPart; 6] = [
    PlacedPart { agent: "second", label: "east", kind: TaskKind::Place, part: 1 },
    PlacedPart { agent: "third", label: "west", kind: TaskKind::Place, part: 2 },
    PlacedPart { agent: "fourth", label: "east", kind: TaskKind::Place, part: LOWEST },
    PlacedPart { agent: "claimer", label: "east", kind: TaskKind::Board, part: 1 },
    PlacedPart { agent: "rival", label: "west", kind: TaskKind::Board, part: 2 },
    PlacedPart { agent: "idler", label: "west", kind: TaskKind::Cancel, part: 1 },
];

/// An agent with a place, and its part in a task.
#[derive(Debug, Clone, Copy)]
pub struct PlacedPart {
    pub agent: &'static str,
    /// The label that its worker has.
    pub label: &'static str,
    pub kind: TaskKind,
    /// The number of the part: the depth, except that of two agents of one depth each has its own. That of the run itself is
    /// 0.
    pub part: u32,
}

impl PlacedPart {
    /// Returns the part of an agent; `None` if it has no place.
    pub fn of(agent: &str) -> Option<Self> {
        PLACED.into_iter().find(|part| part.agent == agent)
    }

    /// Returns the agents that this part of a task hands it on to.
    pub fn below(kind: TaskKind, part: u32) -> Vec<Self> {
        let is_below = |other: &Self| match kind {
            TaskKind::Place => other.part == part + 1,
            _ => part == 0,
        };
        PLACED.into_iter().filter(|other| other.kind == kind && is_below(other)).collect()
    }
}

/// The kind of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Calls that can be repeated.
    Look,
    /// Calls that cannot, among others.
    Effect,
    /// A question to a person.
    Ask,
    /// A task that is delegated, three deep; the lowest agent makes a call that cannot be repeated.
    Delegate,
    /// The same, by agents on other workers. The lowest one asks a person besides.
    Place,
    /// A board of tasks that two agents on other workers claim.
    Board,
    /// An agent on another worker that asks a person who does not answer, but cancels the run.
    Cancel,
    /// A run that goes on until a person has sent it a message.
    Note,
}

impl TaskKind {
    /// All kinds.
    pub const ALL: [Self; 8] =
        [Self::Look, Self::Effect, Self::Ask, Self::Delegate, Self::Place, Self::Board, Self::Cancel, Self::Note];

    /// Returns the word for this kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Effect => "effect",
            Self::Ask => "ask",
            Self::Delegate => "delegate",
            Self::Place => "place",
            Self::Board => "board",
            Self::Cancel => "cancel",
            Self::Note => "note",
        }
    }

    /// Returns the task of an agent with this part.
    pub fn task(self, run: &str, part: u32) -> String {
        format!("Do your part. [[{run} {} {part}]]", self.word())
    }

    /// Returns the answer without faults.
    pub fn answer(self, run: &str) -> String {
        match self {
            Self::Look => format!("{run} has looked."),
            Self::Effect => format!("{run} has done both."),
            Self::Ask => format!("{run} is blue."),
            Self::Delegate => format!("{run} is done by others."),
            Self::Place => format!("{run} is done elsewhere."),
            Self::Board => format!("{run} is shared out."),
            Self::Cancel => format!("{run} was not cancelled."),
            Self::Note => format!("{run} was told."),
        }
    }

    /// Returns the number of replies in the session of a part without faults, and `true` if there may be more: a question
    /// whose answer is lost may be asked in a step of its own, and a message is waited for.
    pub fn replies(self, part: u32) -> (usize, bool) {
        match (self, part) {
            (Self::Look, _) => (4, false),
            (Self::Effect, _) => (5, false),
            (Self::Ask | Self::Note, _) => (2, true),
            (Self::Delegate, _) => (8, false),
            (Self::Place, LOWEST) => (3, true),
            (Self::Place, _) => (2, false),
            // It creates the tasks, hands them out, lists them, and says so.
            (Self::Board, 0) => (BOARD_TASKS + 3, false),
            (Self::Board, _) => (BOARD_TASKS + 1, false),
            (Self::Cancel, _) => (1, true),
        }
    }

    /// Returns `true` if a person answers the questions of the run.
    pub fn is_answered(self) -> bool {
        matches!(self, Self::Ask | Self::Place)
    }

    /// Returns the beginning of the name of the file that the call at this step makes; `None` if it makes none.
    pub fn effect(self, run: &str, part: u32, step: usize) -> Option<String> {
        let makes_one = match self {
            Self::Effect => step == 1 || step == 3,
            Self::Delegate | Self::Place => part == LOWEST && step == 0,
            _ => false,
        };
        makes_one.then(|| format!("{run}.{part}.{step}"))
    }

    /// Returns the task of the board that a claimer claims at this step; `None` if it claims none. The two begin at
    /// different ends.
    pub fn claim(self, part: u32, step: usize) -> Option<String> {
        let is_claimer = self == Self::Board && part > 0 && step < BOARD_TASKS;
        let number = if part == 1 { step + 1 } else { BOARD_TASKS.saturating_sub(step) };
        is_claimer.then(|| format!("task-{number}"))
    }
}

/// Returns the id of the run with this number.
pub fn run_id(number: usize) -> String {
    format!("r-{number}")
}

/// Returns the kind of the run with this id.
pub fn kind_of(id: &str) -> TaskKind {
    let number: usize = id.trim_start_matches("r-").parse().unwrap_or_default();
    TaskKind::ALL[number % TaskKind::ALL.len()]
}

/// Returns the text of the message to a run, which nothing else says.
pub fn note_for(run: &str) -> String {
    format!("The colour of {run} is green.")
}
