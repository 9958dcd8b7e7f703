//! External programs that count, and the program that users run.

use std::{
    error::Error,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::{acting, counts::Costs};

/// With these, threads wait for each other and for events: how often depends on who comes first.
const WAITING: [&str; 7] =
    ["futex", "epoll_wait", "epoll_pwait", "sched_yield", "restart_syscall", "clock_nanosleep", "rt_sigreturn"];

/// Runs a command as it is.
pub fn output(command: &mut Command) -> Result<Output, Box<dyn Error>> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// Returns the system calls of a command, all and those that sync; `None` if there is no strace.
pub fn system_calls(command: &Command, folder: &Path) -> Result<Option<(f64, f64)>, Box<dyn Error>> {
    let file = folder.join("system-calls");
    let options = [OsStr::new("-f"), OsStr::new("-c"), OsStr::new("-o"), file.as_os_str()];
    if under("strace", &options, command)?.is_none() {
        return Ok(None);
    }
    let (mut all, mut syncs) = (0.0, 0.0);
    for line in fs::read_to_string(&file)?.lines() {
        // % time, seconds, usecs/call, calls, errors (or nothing), the name
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, _, _, calls, .., name] = words.as_slice() else { continue };
        let (Ok(calls), false) = (calls.parse::<f64>(), *name == "total") else { continue };
        if !WAITING.contains(name) {
            all += calls;
        }
        if matches!(*name, "fsync" | "fdatasync") {
            syncs += calls;
        }
    }
    Ok(Some((all, syncs)))
}

/// Returns the instructions of a command, all of its threads and of what the kernel does not do for it; `None` if there is
/// no valgrind.
pub fn instructions(command: &Command) -> Result<Option<f64>, Box<dyn Error>> {
    let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let Some(output) = under("valgrind", &options, command)? else { return Ok(None) };
    let said = String::from_utf8_lossy(&output.stderr);
    // ==1234== Collected : 5678
    let counted = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    Ok(Some(counted.ok_or_else(|| format!("valgrind counted nothing: {said}"))?))
}

/// Returns the factors on which a count of instructions depends: the compiler and whether it compiled incrementally, which
/// generates other code, valgrind, and the processor.
pub fn counter() -> String {
    let first_line = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
    };
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(": ")?.1.to_owned())
    });
    let incremental = if option_env!("CARGO_INCREMENTAL") == Some("0") { "at once" } else { "incremental" };
    let parts = [first_line("rustc"), Some(incremental.into()), first_line("valgrind"), processor];
    parts.map(|part| part.unwrap_or_else(|| "unknown".into())).join(", ")
}

/// Runs a command under another program; `None` if that is not installed.
fn under(program: &str, options: &[impl AsRef<OsStr>], command: &Command) -> Result<Option<Output>, Box<dyn Error>> {
    let mut around = Command::new(program);
    around.args(options).arg(command.get_program()).args(command.get_args());
    around.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        around.current_dir(folder);
    }
    match around.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
        Ok(output) if output.status.success() => Ok(Some(output)),
        Ok(output) => Err(format!("{around:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// Returns the costs of a whole run of the program that uses four plugins and a provider, with compiled code in the cache
/// and so many plugins in the directory. The compiled code stays in `cache`.
pub fn warm_start(plugins: usize, folder: &Path, cache: &Path) -> Result<Costs, Box<dyn Error>> {
    let used = ["read-files", "count-text", "loop-detect", "redact", "offline-model"];
    let directory = folder.join("plugins");
    fs::create_dir_all(&directory)?;
    let mut others: Vec<PathBuf> =
        fs::read_dir(acting::PLUGIN_ROOT)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    others.sort();
    others.retain(|plugin| plugin.file_name().is_some_and(|name| !used.iter().any(|used| name == *used)));
    let used = used.map(|name| Path::new(acting::PLUGIN_ROOT).join(name));
    for plugin in used.iter().chain(&others).take(plugins) {
        let copy = directory.join(plugin.file_name().ok_or("a plugin has a folder")?);
        fs::create_dir(&copy)?;
        for file in fs::read_dir(plugin)? {
            let file = file?;
            fs::copy(file.path(), copy.join(file.file_name()))?;
        }
    }
    if fs::read_dir(&directory)?.count() != plugins {
        return Err(format!("there are no {plugins} plugins to put there").into());
    }
    fs::write(folder.join("a.txt"), "one two three")?;
    fs::write(
        folder.join("shelly.yaml"),
        "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n\
         agents:\n  - name: reader\n    plugins:\n      read-files: {files: [{path: .}]}\n      count-text:\n      \
         loop-detect: {powers: [see-messages, see-arguments, note, stop]}\n      redact:\n",
    )?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-host-counted"));
    command
        .args(["run", "--trust", "--no-session", "--plugins", "plugins", "How many words are in a.txt?"])
        .current_dir(folder)
        .env("SHELLY_CACHE_DIR", cache);
    // The first one compiles, and under valgrind the first one again: the processor that it shows is another one.
    output(&mut command)?;
    instructions(&command)?;
    let calls = system_calls(&command, folder)?;
    Ok(Costs {
        instructions: instructions(&command)?,
        system_calls: calls.map(|(all, _)| all),
        syncs: calls.map(|(_, syncs)| syncs),
        ..Costs::default()
    })
}
