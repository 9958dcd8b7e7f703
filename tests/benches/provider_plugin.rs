//! The cost of models behind plugins and of middleware around requests to them: a piece of a streamed reply, a chain of
//! middleware, the memory of an open stream, a long conversation on its way into a guest, and outgoing HTTP itself.
//!
//! The server is this program once more, in a process of its own. What is compared is done turn by turn in one process.

use std::error::Error;

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

mod lent;
#[expect(dead_code, reason = "other benchmarks use more of it")]
mod stage;
#[expect(dead_code, reason = "other benchmarks use more of it")]
mod wires;

use lent::{chain, crossing, door, memory, pieces};
use wires::{counted::Counted, server};

#[global_allocator]
static MEMORY: Counted = Counted;

/// The parts that can be selected by name; without a name all of them are measured.
const PARTS: [&str; 5] = ["pieces", "chain", "memory", "crossing", "door"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let is_asked = |argument: &str| arguments.iter().any(|given| given == argument);
    if is_asked(server::SERVE) {
        return server::serve();
    }
    if is_asked(memory::MEMORY) {
        return memory::tell();
    }
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !is_asked("--bench");
    let wants = |part: &str| is_asked(part) || !PARTS.iter().any(|part| is_asked(part));
    let measure = [pieces::measure, chain::measure, memory::measure, crossing::measure, door::measure];
    for (part, measure) in PARTS.into_iter().zip(measure) {
        if wants(part) {
            measure(smoke)?;
        }
    }
    Ok(())
}
