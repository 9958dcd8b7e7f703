//! The costs of the main paths, in counts that a busy machine does not change: instructions, allocations, system calls,
//! syncs of the disk and bytes on it. `cargo test --test gate` compares them with `baseline.json` and fails where one is
//! more than 3 % away; `CARGO_INCREMENTAL=0 cargo test --test gate -- --update` writes the baseline anew.
//!
//! Each path is a process of its own, once with some rounds and once with twice as many: the difference is the cost of the
//! rounds, without that of starting. valgrind counts instructions and strace counts system calls. Where one is not
//! installed, its counts are left out and the gate says so; with `-- --complete`, as CI runs it, it fails. Instructions
//! depend on the compiler, on whether it compiled incrementally, and on the processor: they are compared where these are
//! those of the baseline.

mod counts;
mod paths;
mod programs;

#[path = "../benches/acting/mod.rs"]
mod acting;
#[expect(dead_code, reason = "the benchmarks use more of it")]
#[path = "../benches/wires/counted.rs"]
mod counted;
#[expect(dead_code, reason = "the benchmark of agents uses more of it")]
#[path = "../benches/delegation/mod.rs"]
mod delegation;
#[expect(dead_code, reason = "the benchmark of agents uses more of it")]
#[path = "../benches/stage/mod.rs"]
mod stage;

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

use counts::{Baseline, Costs};
use paths::PATHS;

#[global_allocator]
static ALLOCATOR: counted::Counted = counted::Counted;

/// Says that this process is to go one path: its name, the rounds and a folder follow.
const PATH: &str = "--path";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [flag, name, rounds, folder] = arguments.as_slice()
        && flag == PATH
    {
        counted::begin();
        let path = PATHS.iter().find(|path| path.name == name).ok_or("there is no such path")?;
        paths::go(path, rounds.parse()?, Path::new(folder))?;
        println!("{}", counted::times());
        return Ok(ExitCode::SUCCESS);
    }
    let (update, is_complete) = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => (false, false),
        ["--complete"] => (false, true),
        ["--update"] => (true, false),
        _ => return Err("usage: cargo test --test gate [-- --complete | --update]".into()),
    };
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("gate/baseline.json");
    let measured = measure()?;
    if update {
        measured.write(&file)?;
        println!("{} is written", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    let differences = Baseline::read(&file)?.differences(&measured, is_complete);
    for difference in &differences {
        println!("{difference}");
    }
    let failed = differences.iter().filter(|difference| difference.fails).count();
    println!("{} counts, {failed} failures", measured.len());
    if failed > 0 {
        println!(
            "a path costs more or less than tests/gate/baseline.json says. If that is meant, write it anew with \
             `CARGO_INCREMENTAL=0 cargo test --test gate -- --update`, in a commit that says why"
        );
    }
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn measure() -> Result<Baseline, Box<dyn Error>> {
    let folder = tempfile::Builder::new().prefix("gate").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let mut baseline = Baseline::new(programs::counter());
    println!("{:34} {}", "", Costs::TITLES.map(|title| format!("{title:>14}")).join(""));
    for path in &PATHS {
        let costs = paths::costs(path, folder.path())?;
        println!("{:34} {costs}", path.about);
        baseline.add(path.name, costs);
    }
    for plugins in [5, 41] {
        let costs =
            programs::warm_start(plugins, &folder.path().join(plugins.to_string()), &folder.path().join("cache"))?;
        println!("{:34} {costs}", format!("a warm run, {plugins} plugins in the folder"));
        baseline.add(&format!("start_{plugins}"), costs);
    }
    Ok(baseline)
}
