use super::render::RunOutputFormat;

/// Returns the machine-readable format that the command line asks for, as far as a wrong command line tells.
pub fn wanted_output() -> Option<RunOutputFormat> {
    let arguments: Vec<_> = std::env::args_os().skip(1).take_while(|argument| argument != "--").collect();
    if arguments.first().is_some_and(|command| command == "batch") {
        // Its output is a file.
        return None;
    }
    let value = |at: usize| match arguments[at].to_str()?.strip_prefix("--output")? {
        "" => arguments.get(at + 1)?.to_str(),
        rest => rest.strip_prefix('='),
    };
    (0..arguments.len()).rev().find_map(value).and_then(|value| match value {
        "json" => Some(RunOutputFormat::Json),
        "events" => Some(RunOutputFormat::Events),
        _ => None,
    })
}
