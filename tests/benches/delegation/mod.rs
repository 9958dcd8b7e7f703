//! One call of `delegate` with a thousand tasks. An agent of its own works on each: a reply after 10 ms calls a tool, and
//! another one after 10 ms more is the answer or calls `task_complete`. The least that this can take is 20 ms; two cores
//! work on the rest.

use std::{
    error::Error,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use shelly_host::{
    agent::{Agent, AgentEntry, AgentGroup, AgentRegistry},
    chat::Chat,
    event::RunCx,
};
use tokio::runtime::Runtime;

use crate::stage;

/// The argument with which this program, started once more, tells what memory it takes.
pub const MEMORY: &str = "--delegation-memory";
/// The ways in which an agent ends its task.
const ENDINGS: [&str; 2] = ["answer", "task_complete"];
const REPLY_AFTER: Duration = Duration::from_millis(10);
const TASKS: usize = 1_000;
const ROUNDS: usize = 40;

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let (tasks, rounds) = if smoke { (10, 1) } else { (TASKS, ROUNDS) };
    println!("{tasks} tasks in one `delegate`, two replies of 10 ms and a tool call each, {rounds} rounds");
    for ending in ENDINGS {
        let runtime = runtime()?;
        let agent_group = agent_group(tasks, ending, REPLY_AFTER);
        let (mut walls, mut cpus) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (started, before) = (Instant::now(), stage::cpu());
            runtime.block_on(delegate(&agent_group, tasks));
            walls.push(started.elapsed());
            cpus.push(stage::cpu() - before);
        }
        let output = Command::new(std::env::current_exe()?).args([MEMORY, ending, &tasks.to_string()]).output()?;
        let memory = String::from_utf8(output.stdout)?;
        println!("  {ending:13} wall {}   CPU {}   memory a task {}", spread(walls), spread(cpus), memory.trim());
    }
    Ok(())
}

/// Tells how much the process grows while so many agents work, for each of them. Its first such work in this process: what
/// was freed before would be used again.
pub fn memory() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip_while(|argument| argument != MEMORY).collect();
    let [_, ending, tasks] = arguments.as_slice() else { return Err("which ending, and how many tasks?".into()) };
    let ending = ENDINGS.into_iter().find(|known| known == ending).ok_or("there is no such ending")?;
    let (runtime, tasks) = (runtime()?, tasks.parse()?);
    // What is there once, however many work.
    runtime.block_on(delegate(&agent_group(10, ending, REPLY_AFTER), 10));
    let agent_group = agent_group(tasks, ending, REPLY_AFTER);
    let before = resident("VmRSS:");
    runtime.block_on(delegate(&agent_group, tasks));
    match before.zip(resident("VmHWM:")) {
        Some((before, peak)) => println!("{:.1} KiB", peak.saturating_sub(before) as f64 / tasks as f64),
        None => println!("unknown: there is no /proc/self/status"),
    }
    Ok(())
}

/// KiB of memory, from what the system says of this process.
fn resident(what: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(what))?.split_whitespace().next()?.parse().ok()
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// A lead that delegates once, and those that it delegates to.
pub fn agent_group(tasks: usize, ending: &'static str, reply_after: Duration) -> (AgentRegistry, Agent) {
    let orders: Vec<_> = (0..tasks)
        .map(|n| {
            let task = format!("Look into section {n} of the documentation.");
            serde_json::json!({"agent": "worker", "task": task, "context": "The documentation is in docs/."})
                .to_string()
        })
        .collect();
    let orders = format!(r#"{{"tasks":[{}]}}"#, orders.join(","));
    let lead = stage::Model::completer(Duration::ZERO, move |request| match stage::has_result(request) {
        false => stage::Says::Call("delegate", orders.clone()),
        true => stage::Says::Answer("All of them have reported."),
    });
    let worker = stage::Model::completer(reply_after, move |request| match (stage::has_result(request), ending) {
        (false, _) => stage::say_hello(),
        (true, "answer") => stage::Says::Answer("It stands there four times."),
        (true, _) => {
            let report = r#"{"status":"completed","summary":"It stands there four times."}"#;
            stage::Says::Call("task_complete", report.into())
        }
    });
    let registry = AgentRegistry::new();
    let (lead, registered) = (stage::agent("lead", &lead), stage::agent("lead", &lead));
    registry.register(AgentEntry::new("lead", "Divides work"), move || registered.clone());
    registry.register(AgentEntry::new("worker", "Looks things up"), move || stage::agent("worker", &worker));
    (registry, lead)
}

/// Gives the tasks to agents, and checks that all of them have reported.
pub async fn delegate((registry, lead): &(AgentRegistry, Agent), tasks: usize) {
    // A group limits the agents that it ever has: each round has a group of its own.
    let agent_group = Arc::new(AgentGroup::new(registry.clone()));
    let lead = lead.clone().with_agent_group(Arc::clone(&agent_group), 1);
    let chat = Chat::new();
    lead.run(&RunCx::new("lead"), &chat, stage::task()).await.expect("the model answers");
    let told = chat.snapshot().iter().flat_map(|entry| entry.message.tool_results()).next().map(|told| told.text());
    assert_eq!(told.unwrap_or_default().matches("It stands there four times.").count(), tasks, "all have reported");
}

/// The least, the median and the most.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort();
    let ms = |at: usize| times[at].as_secs_f64() * 1e3;
    format!("{:.1} / {:.1} / {:.1} ms", ms(0), ms(times.len() / 2), ms(times.len() - 1))
}
