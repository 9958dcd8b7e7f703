//! The cost of models behind HTTP: a piece of a streamed reply, many replies at once, and the body of a request.
//!
//! The server is this program once more, in a process of its own, so that its time and memory are not counted. Streams are
//! as vendors send them: each event in a chunk of its own.

use std::error::Error;

#[expect(dead_code, reason = "other benchmarks use more of it")]
mod stage;
mod wires;

use wires::{counted::Counted, many, replies, requests, server};

#[global_allocator]
static MEMORY: Counted = Counted;

/// The parts that can be selected by name; without a name all of them are measured.
const PARTS: [&str; 3] = ["replies", "many", "requests"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let is_asked = |argument: &str| arguments.iter().any(|given| given == argument);
    if is_asked(server::SERVE) {
        return server::serve();
    }
    if is_asked(many::MEMORY) {
        return many::memory();
    }
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !is_asked("--bench");
    let wants = |part: &str| is_asked(part) || !PARTS.iter().any(|part| is_asked(part));
    for (part, measure) in PARTS.into_iter().zip([replies::measure, many::measure, requests::measure]) {
        if wants(part) {
            measure(smoke)?;
        }
    }
    Ok(())
}
