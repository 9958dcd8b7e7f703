//! Standard input beside a task: it reaches the model, marked and bounded, or an error says why not; and no run waits for it
//! for ever.

use std::{
    fs::File,
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use shelly_host::limits;

use crate::{
    bad_input::{FOUR, Server, answer},
    support::{Place, Ran},
};

/// A project on a model that answers everything.
fn place() -> (Place, Server) {
    let (place, server) = (Place::new(), Server::start(|_| answer("200 OK", FOUR)));
    place.file("shelly.yaml", server.config("api_key: x"));
    (place, server)
}

/// Returns the newest user message of the last request.
fn heard(server: &Server) -> String {
    let asked = server.asked.lock().unwrap();
    let body: Value = serde_json::from_str(asked.last().unwrap().split_once("\r\n\r\n").unwrap().1).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let last = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
    last["content"].as_str().unwrap().to_owned()
}

/// Runs it with these bytes on a pipe.
fn piped(place: &Place, arguments: &[&str], bytes: &[u8]) -> Ran {
    let mut command = place.command(arguments);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end before it has read all of it.
    let _ = run.stdin.take().unwrap().write_all(bytes);
    place.ran(run.wait_with_output().unwrap())
}

#[test]
fn piped_text_goes_to_the_model_with_the_task() {
    let (place, server) = place();
    let ran = piped(&place, &["run", "Sum it up."], "DATA é\nand more\n".as_bytes());
    assert_eq!((ran.code, &*ran.stdout), (0, "Four.\n"), "{}", ran.shown());
    assert!(ran.stderr.contains("standard input: 17 bytes are sent to the model with the task"), "{}", ran.shown());
    let told = heard(&server);
    assert!(told.starts_with("Sum it up.\n\n"), "{told}");
    assert!(told.ends_with("<standard_input>\nDATA é\nand more\n</standard_input>"), "{told}");
    // The title is the task alone.
    let list = place.run(&["session", "list"]);
    assert!(list.stdout.trim_end().ends_with("Sum it up."), "{}", list.shown());

    let ran = piped(&place, &["session", "resume", "last", "And this?"], b"MORE");
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(heard(&server).starts_with("And this?\n\n") && heard(&server).contains("\nMORE\n"), "{}", heard(&server));

    let file = place.file("notes.txt", "of a file\n");
    let mut command = place.command(&["run", "Sum it up."]);
    let ran = place.ran(command.stdin(File::open(file).unwrap()).output().unwrap());
    assert!(ran.code == 0 && heard(&server).contains("\nof a file\n"), "{}", ran.shown());
}

#[test]
fn empty_standard_input_adds_nothing_to_the_task() {
    let (place, server) = place();
    let of_dash = piped(&place, &["run", "-"], b"Sum it up.");
    let blank = piped(&place, &["run", "Sum it up."], b" \n\n");
    let left_alone = piped(&place, &["run", "Sum it up.", "--stdin", "never"], b"DATA");
    let null = place.run(&["run", "Sum it up."]);
    for ran in [of_dash, blank, left_alone, null] {
        assert!(ran.code == 0 && !ran.stderr.contains("standard input"), "{}", ran.shown());
    }
    for request in &*server.asked.lock().unwrap() {
        assert!(request.contains("\"Sum it up.\""), "{request}");
    }
}

#[test]
fn invalid_standard_input_is_refused_before_the_run() {
    let (place, server) = place();
    assert_eq!(piped(&place, &["run", "hello"], b"").code, 0);
    let asked = server.asked.lock().unwrap().len();
    let large = vec![b'x'; limits::STDIN_BYTES + 1];
    let no_task = &["session", "resume", "last"][..];
    for (arguments, bytes, says) in [
        (&["run", "Sum it up."][..], &b"\xff\xfePNG"[..], "standard input is not UTF-8 text"),
        (&["run", "Sum it up."], &b"a\0b"[..], "standard input is not UTF-8 text"),
        (&["run", "Sum it up."], &large[..], "standard input has more than 1048576 bytes"),
        (no_task, &b"DATA"[..], "standard input without a task"),
    ] {
        let ran = piped(&place, arguments, bytes);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{says}: {}", ran.shown());
        assert!(ran.stderr.contains("--stdin never"), "{says}: {}", ran.shown());
    }
    assert_eq!(server.asked.lock().unwrap().len(), asked, "no model was asked");
    let whole = vec![b'x'; limits::STDIN_BYTES];
    assert_eq!(piped(&place, &["run", "Sum it up."], &whole).code, 0);
}

/// A pipe that stays open without a word, as many a program leaves one to what it starts.
#[test]
fn silent_pipe_is_waited_for_briefly() {
    let (place, server) = place();
    for (arguments, is_silent) in [
        (&["run", "Sum it up."][..], true),
        (&["run", "Sum it up.", "--stdin", "never"], false),
        (&["session", "resume", "last", "Again."], true),
    ] {
        let mut silent = Command::new("sleep").arg("60").stdout(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        let mut command = place.command(arguments);
        let ran = place.ran(command.stdin(silent.stdout.take().unwrap()).output().unwrap());
        silent.kill().unwrap();
        silent.wait().unwrap();
        assert_eq!(ran.code, 0, "{}", ran.shown());
        assert!(began.elapsed() < Duration::from_secs(40), "{arguments:?}");
        let says = "standard input is a pipe that delivered nothing for 3 s; continuing without it";
        assert_eq!(ran.stderr.contains(says), is_silent, "{}", ran.shown());
    }
    assert_eq!(server.asked.lock().unwrap().len(), 3);
}

#[test]
fn slow_input_is_awaited_with_stdin_always() {
    let (place, server) = place();
    let mut slow = Command::new("sh").args(["-c", "sleep 4; echo SLOW"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut command = place.command(&["run", "Sum it up.", "--stdin", "always"]);
    let ran = place.ran(command.stdin(slow.stdout.take().unwrap()).output().unwrap());
    slow.wait().unwrap();
    assert!(ran.code == 0 && heard(&server).contains("\nSLOW\n"), "{}", ran.shown());
    let resumed = piped(&place, &["session", "resume", "last", "--stdin", "never", "Again."], b"DATA");
    assert!(resumed.code == 0 && !heard(&server).contains("DATA"), "{}", resumed.shown());
}
