//! Several calls of one reply that change one file: no change is lost, and a call whose change was not made says so.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_edits_of_one_file_are_applied_or_refused() {
    const LINES: usize = 12;
    let world = World::new();
    let text: String = (0..LINES).map(|at| format!("line {at:02} é\r\n")).collect();
    world.file("project/many.txt", &text);
    let edit = |at: usize| {
        let (old, new) = (format!("line {at:02} é"), format!("changed {at:02} 😀"));
        ("fs_edit", json!({"path": "many.txt", "old_text": old, "new_text": new}))
    };
    let calls: Vec<_> = (0..LINES).map(edit).collect();
    let came = run(&world, ADA, &[&calls], By::Nobody(HeadlessPolicy::All)).await;
    assert_eq!(came.results.len(), LINES);
    let made: Vec<_> = came.results.iter().map(|result| result.starts_with("changed ")).collect();
    let refused = came.results.iter().filter(|result| result.contains("has changed in the meantime")).count();
    assert_eq!(made.iter().filter(|made| **made).count() + refused, LINES, "{:?}", came.results);
    assert!(made.contains(&true), "{:?}", came.results);
    let line = |(at, made): (usize, &bool)| match made {
        true => format!("changed {at:02} 😀\r\n"),
        false => format!("line {at:02} é\r\n"),
    };
    let expected: String = made.iter().enumerate().map(line).collect();
    assert_eq!(fs::read_to_string(world.path("project/many.txt")).unwrap(), expected, "{:?}", came.results);
}
