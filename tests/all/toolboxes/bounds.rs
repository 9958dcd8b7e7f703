//! Limits on what is opened: how a tool states what it lacks, how often in one call, and how much for one agent.

use shelly_host::limits;

use super::*;

/// An agent with a guest that lacks what it is told to.
const LACKING: &str = "[{name: ada, plugins: {probe-changes: {files: [{path: ., as: /project}], ask: [files]}}}]";

async fn lacks(world: &World, arguments: Value, by: By) -> (String, Came) {
    let came = run_from(&[crate::GUEST_ROOT.into()], world, LACKING, &[&[("lack", arguments)]], by).await;
    (came.results[0].clone(), came)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_needs_must_be_well_formed_and_short() {
    let world = World::new();
    for (arguments, says) in [
        (json!({"bytes": limits::NEED_BYTES}), "cannot be granted"),
        (json!({"bytes": limits::NEED_BYTES + 1}), "8193 bytes, the maximum is 8192"),
        (json!({"says": "{\"folder\": \"/\"}", "beside": "and more"}), "a result must have no other content beside it"),
        (json!({"says": "{\"file\": \"/x\"}"}), "`: unknown variant `file`"),
        (json!({"says": "{\"folder\": \"a\"}"}), "not an absolute path without `..`"),
        (json!({"says": "{\"folder\": \"/a/../b\"}"}), "not an absolute path without `..`"),
        (json!({"says": "{\"folder\": \"/\\u0000\"}"}), "cannot be granted"),
        (json!({"says": "{\"folder\": "}), "`: EOF"),
    ] {
        let (result, came) = lacks(&world, arguments.clone(), By::Person(vec![Verdict::Yes])).await;
        let shown: String = result.chars().take(300).collect();
        assert!(result.contains(says), "{arguments:.60}: {shown}");
        assert!(came.asked.is_empty(), "{:?}", came.asked);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn needs_of_one_call_are_bounded() {
    let most = limits::NEEDS_PER_CALL;
    for (count, says) in [(most, "4 folders are there"), (most + 1, "the call needs more than 4 folders or servers")] {
        let world = World::new();
        let folders: Vec<_> = (0..count).map(|at| format!("folder-{at}")).collect();
        folders.iter().for_each(|name| world.file(&format!("{name}/x"), ""));
        let folders: Vec<_> = folders.iter().map(|name| world.path(name)).collect();
        let yes = vec![Verdict::Yes; 2 * most];
        let (result, came) = lacks(&world, json!({ "folders": folders }), By::Person(yes)).await;
        assert!(result.contains(says), "{result}");
        assert_eq!(came.asked.len(), most, "nobody is asked for what would be of no use: {:?}", came.asked);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opened_folders_of_one_agent_are_bounded() {
    let world = World::new();
    let names: Vec<_> = (0..=limits::OPENED).map(|at| format!("many/{at}/a.txt")).collect();
    names.iter().for_each(|name| world.file(name, "opened\n"));
    let calls: Vec<_> = names.iter().map(|name| world.read(name)).collect();
    // The first is still open after the last was refused.
    let (open, beyond) = calls.split_at(limits::OPENED);
    let replies: Vec<_> = open.chunks(4).chain([beyond, &calls[..1]]).collect();
    let came = run(&world, ADA, &replies, By::Nobody(HeadlessPolicy::All)).await;
    assert_eq!(came.results.len(), limits::OPENED + 2);
    for (at, result) in came.results.iter().enumerate() {
        let says = if at == limits::OPENED {
            "the limit of 64 folders and servers granted during a run is reached"
        } else {
            "opened"
        };
        assert!(result.contains(says), "{at}: {result}");
    }
    let opened = came.decided.iter().filter(|(line, allowed, _)| line.contains("/many/") && *allowed).count();
    assert_eq!(opened, limits::OPENED);
}
