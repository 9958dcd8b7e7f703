//! The cost of a team, with models in this process: a number of members and rounds, in sequence or in parallel. Time and
//! memory grow with the messages that members see.
//!
//! Each shape runs in a process of its own, because memory is that of the process at its peak. Members' conversations hold
//! the messages that they have seen, so a message of a team of 100 is in 100 conversations; it is in memory once.

use std::{
    error::Error,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use shelly_host::{
    agent::Runner,
    chat::Chat,
    event::RunCx,
    team::{LoopCoordinator, Member, RoleRoundRobin, Team},
};

#[expect(dead_code, reason = "other benchmarks use more of it")]
mod stage;

/// The argument with which this program, started once more, measures one shape.
const ONE: &str = "--one";
/// Members and rounds.
const SHAPES: [(usize, u32); 5] = [(10, 10), (10, 100), (100, 10), (100, 50), (100, 100)];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip_while(|argument| argument != ONE).collect();
    if let [_, way, members, rounds] = arguments.as_slice() {
        return one(way, members.parse()?, rounds.parse()?);
    }
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    println!("members, rounds: wall and CPU of the run, of one reply, and memory at the peak");
    for way in ["in turn", "at once"] {
        for (members, rounds) in SHAPES.into_iter().take(if smoke { 1 } else { SHAPES.len() }) {
            let (count, often) = (members.to_string(), rounds.to_string());
            let ran = Command::new(std::env::current_exe()?).args([ONE, way, &count, &often]).output()?;
            if !ran.status.success() {
                return Err(String::from_utf8_lossy(&ran.stderr).into_owned().into());
            }
            println!("  {way}: {members:3}, {rounds:3}: {}", String::from_utf8(ran.stdout)?.trim());
        }
    }
    Ok(())
}

fn one(way: &str, members: usize, rounds: u32) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // What is there once, however many work.
    runtime.block_on(run(way, 2, 2))?;
    let before = resident("VmRSS:");
    let (start, cpu) = (Instant::now(), stage::cpu());
    let said = runtime.block_on(run(way, members, rounds))?;
    let (wall, cpu) = (start.elapsed(), stage::cpu() - cpu);
    assert_eq!(said, members * rounds as usize + 1, "a task, and a reply of each in each round");
    let memory = match before.zip(resident("VmHWM:")) {
        Some((before, peak)) => format!("{:.1} MiB", peak.saturating_sub(before) as f64 / 1024.0),
        None => "unknown: there is no /proc/self/status".into(),
    };
    let each = |time: Duration| time.as_secs_f64() * 1e6 / (said - 1) as f64;
    println!(
        "{:.0} ms, {:.0} ms; {:.0} µs, {:.0} µs; {memory}",
        wall.as_secs_f64() * 1e3,
        cpu.as_secs_f64() * 1e3,
        each(wall),
        each(cpu)
    );
    Ok(())
}

/// Returns the number of messages that the team's conversation has in the end.
async fn run(way: &str, members: usize, rounds: u32) -> Result<usize, Box<dyn Error>> {
    let model = stage::Model::completer(Duration::ZERO, |_| stage::Says::Answer("Four times, as far as I can see."));
    let names: Vec<Arc<str>> = (0..members).map(|member| format!("member-{member}").into()).collect();
    let team = match way {
        "in turn" => Team::new("desk", LoopCoordinator::times(rounds)),
        _ => Team::new("desk", RoleRoundRobin::new(rounds, ["all"])),
    };
    let team = names.into_iter().fold(team, |team, name| {
        team.with_member(Member::new(stage::agent("worker", &model)).with_name(name).with_role("all"))
    });
    let chat = Chat::new();
    Runner::run(&team, &RunCx::new("desk"), &chat, stage::task()).await?;
    Ok(chat.snapshot().len())
}

/// KiB of memory, from what the system says of this process.
fn resident(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|text| text.strip_prefix(line))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}
