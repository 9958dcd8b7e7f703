use std::any::Any;

use crate::error::{ErrorKind, Report};

/// Reports a panic.
pub fn bug(panic: &(dyn Any + Send)) -> Report {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Report::new(ErrorKind::Bug, "this is a bug in shelly-host")
        .cause(text.unwrap_or("panic without a message"))
        .hint("report this bug, with the command and the config if possible")
}
