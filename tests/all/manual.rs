//! The manual pages, and what the program says of its version.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::Place;

fn pages(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn man_writes_a_page_for_each_command() {
    let place = Place::new();
    let ran = place.run(&["man", "deep/man1"]);
    let pages = pages(&place.path().join("deep/man1"));
    assert_eq!(ran.stdout, format!("wrote {} pages to deep/man1\n", pages.len()), "{}", ran.shown());
    for name in
        ["shelly-host", "shelly-host-run", "shelly-host-doctor", "shelly-host-session-list", "shelly-host-mcp-login"]
    {
        assert!(pages.contains(&format!("{name}.1")), "{name}: {pages:?}");
    }
    // The commands of the help have their pages, and nothing else has one.
    let commands = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md")).unwrap();
    let commands = commands.lines().filter_map(|line| line.strip_prefix("## `").or(line.strip_prefix("### `")));
    let commands: BTreeSet<_> =
        commands.map(|name| format!("shelly-host-{}.1", name.trim_end_matches('`').replace(' ', "-"))).collect();
    let others: Vec<_> = pages.difference(&commands).collect();
    assert_eq!(others, ["shelly-host.1"], "docs/cli.md has no such command");
    assert!(commands.is_subset(&pages), "{:?}", commands.difference(&pages).collect::<Vec<_>>());
    let run = fs::read_to_string(place.path().join("deep/man1/shelly-host-run.1")).unwrap();
    assert!(run.contains(".TH shelly-host-run 1") && run.contains("\\-\\-agent"), "{run}");

    // Again: pages are written anew, other files stay.
    place.file("deep/man1/shelly-host-run.1", "old");
    place.file("deep/man1/mine.1", "mine");
    assert_eq!(place.run(&["man", "deep/man1"]).code, 0);
    let of = |name: &str| fs::read_to_string(place.path().join("deep/man1").join(name)).unwrap();
    assert_eq!((of("shelly-host-run.1"), of("mine.1")), (run, "mine".into()));
}

#[test]
fn man_reports_a_folder_that_cannot_be_written() {
    let place = Place::new();
    place.file("file", "");
    for folder in ["file", "file/below"] {
        let ran = place.run(&["man", folder]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
        assert!(
            ran.stderr.starts_with("error: cannot write ") && ran.stderr.contains("hint:  name another"),
            "{}",
            ran.shown()
        );
    }
}

#[test]
fn man_without_a_folder_says_where_pages_are_found() {
    let place = Place::new();
    let run = |program: &Path, path: &str| {
        let mut command = Command::new(program);
        place.ran(command.arg("man").env_clear().env("PATH", path).current_dir(place.path()).output().unwrap())
    };
    let (built, bin) = (Path::new(env!("CARGO_BIN_EXE_shelly-host-under-test")), place.path().join("home/bin"));
    let ran = run(built, "/usr/bin:/bin");
    assert!(ran.code == 0 && ran.stdout.contains("is none of them"), "{}", ran.shown());
    assert!(ran.stdout.contains("shelly-host man DIR") && ran.stderr.is_empty(), "{}", ran.shown());
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("shelly-host");
    fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(drop)).unwrap();
    let ran = run(&program, &format!("/usr/bin:{}", bin.display()));
    assert!(ran.stdout.contains("write them with: shelly-host man [DIR]/home/share/man/man1"), "{}", ran.shown());
    assert!(!place.path().join("home/share").exists(), "nothing is written");
}

#[test]
fn manual_pages_are_valid_for_the_formatter() {
    let place = Place::new();
    assert_eq!(place.run(&["man", "pages"]).code, 0);
    let has_troff = Command::new("groff").arg("--version").stdin(Stdio::null()).output().is_ok();
    if !has_troff {
        eprintln!("left out: groff is not installed, so that the manual is not formatted");
        return;
    }
    // Words that are longer than a line are no mistake.
    for page in pages(&place.path().join("pages")) {
        let path = place.path().join("pages").join(&page);
        let output = Command::new("groff")
            .args(["-man", "-ww", "-Wbreak", "-z", "-Tutf8", "-Kutf8"])
            .arg(&path)
            .output()
            .unwrap();
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{page}: {warnings}");
    }
}

#[test]
fn version_is_short_or_has_every_fact() {
    let place = Place::new();
    let short = place.run(&["-V"]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!((short.code, short.stdout), (0, format!("shelly-host {version}\n")));
    let long = place.run(&["--version"]);
    let lines: Vec<_> = long.stdout.lines().collect();
    assert_eq!((long.code, lines[0]), (0, &*format!("shelly-host {version}")));
    let wit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/types.wit")).unwrap();
    let contract =
        wit.lines().find_map(|line| line.strip_prefix("package shelly:plugin@")).unwrap().trim_end_matches(';');
    assert!(lines[1].starts_with(&format!("contract  {contract} ")), "{}", long.shown());
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock")).unwrap();
    let (_, wasmtime) = lock.split_once("name = \"wasmtime\"\nversion = \"").unwrap();
    assert_eq!(lines[2], format!("wasmtime  {}", wasmtime.split('"').next().unwrap()));
    let names: Vec<_> = lines[3..].iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["target", "profile", "commit"], "{}", long.shown());
}
