//! Formats output for the terminal. Text of guests, models and servers is escaped here.

mod byte_size;
mod call_time;
mod event_stream;
mod output_format;
mod print;
mod progress_display;
mod prose;
mod result_line;
mod run_result;
mod styled_text;
mod terminal_text;

pub use byte_size::size;
pub use call_time::call_time;
pub use event_stream::{begin_stream, event_stream_schema};
pub use output_format::{CliOutputFormat, RunOutputFormat, TestOutputFormat};
pub use print::{not_printed, print, print_coloured, print_for_people, tell, warn, warning};
pub use progress_display::{ProgressDisplay, ProgressLevel};
pub use prose::{print_prose, tell_prose};
pub use run_result::{
    RunResult, answered, cancelled, cost, failed, failed_after, failed_as_json, failure_text, go_on, shown_answer, used,
};
pub use styled_text::styled_lines;
pub use terminal_text::{
    BOLD, DIM, GREEN, PLAIN, RED, YELLOW, escaped, indented_json, json_line, json_safe_line, name, one_line, path_name,
    without_colours,
};
