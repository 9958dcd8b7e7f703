//! Limits of what a person is shown at a terminal while a run works.

use std::time::Duration;

/// The maximum number of lines of the region that is redrawn: the end of the reply, the activity and the status.
pub const LIVE_LINES: usize = 16;
/// The maximum number of lines in which agents and their calls are shown.
pub const LIVE_ROWS: usize = 8;
/// The maximum number of characters of arguments and of a failure in a line about a call.
pub const LIVE_DETAIL_CHARS: usize = 120;
/// The shortest time between two drawings: a screen shows some 60 pictures a second, and half of them read as motion.
pub const LIVE_DRAWING: Duration = Duration::from_millis(33);
/// The time between two drawings while nothing happens, for the mark and the seconds.
pub const LIVE_TICK: Duration = Duration::from_millis(120);
/// The time that a terminal has for its answer about its colours. Over a slow connection the default theme is used.
pub const TERMINAL_ANSWER: Duration = Duration::from_millis(150);

/// The least width in columns at which prose is wrapped. In fewer, hardly two words fit beside an indent.
pub const PROSE_COLUMNS: usize = 20;
/// The maximum bytes at the beginning of a line in which a label is looked for, beside which wrapped text continues. No label
/// of the command line is longer.
pub const PROSE_LABEL_BYTES: usize = 40;

/// The maximum number of agents at work whose activity is tracked for display; later ones are not shown. More than a screen
/// has lines.
pub const AGENTS_SHOWN: usize = 64;
/// The maximum number of calls under way that are tracked for display for each agent; the oldest are dropped.
pub const CALLS_SHOWN: usize = 16;
