//! The wall clock of one process, which jumps while all others keep theirs.
//!
//! The kernel maps the function that reads its clocks into each process. It is replaced there by one that makes the system
//! call and adds a number of seconds to the wall clock; the monotonic clock stays as it is. So this works with programs of
//! all languages and without a privilege: a process may write to the memory of those that it started. It needs Linux on
//! x86-64.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::plan::BoxError;

/// The function that programs call for the time.
const FUNCTION: &[u8] = b"__vdso_clock_gettime\0";

/// The time within which all threads of a process stand still.
const STOP: Duration = Duration::from_secs(5);

/// The replacement of the function, with the number of seconds from byte [`SECONDS`] on.
const REPLACEMENT: [u8; 25] = [
    0xb8, 0xe4, 0, 0, 0, // mov eax, 228: clock_gettime
    0x0f, 0x05, // syscall
    0x85, 0xff, // test edi, edi: clock 0 is the wall clock
    0x75, 0x0d, // jne to the end
    0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, seconds
    0x48, 0x01, 0x0e, // add [rsi], rcx
    0xc3, // ret
];
const SECONDS: usize = 13;

/// Lets the wall clock of a process be ahead by so many seconds, or behind.
///
/// # Errors
///
/// An error if this system does not allow it; the process goes on with its clock then.
pub fn set_ahead(process: u32, seconds: i64) -> Result<(), BoxError> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the clock of a process is replaced on Linux on x86-64 alone".into());
    }
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or("the process has no id")?;
    let memory = File::options().read(true).write(true).open(format!("/proc/{process}/mem"))?;
    let (start, size) = function_of(process, &memory)?;
    if size < REPLACEMENT.len() as u64 {
        return Err("the kernel's function for the time is too short to be replaced".into());
    }
    let mut code = REPLACEMENT;
    code[SECONDS..SECONDS + 8].copy_from_slice(&seconds.to_le_bytes());
    kill_process(pid, Signal::STOP)?;
    let replaced = wait_until_outside(process, start..start + code.len() as u64)
        .and_then(|()| memory.write_all_at(&code, start).map_err(Into::into));
    kill_process(pid, Signal::CONT)?;
    replaced
}

/// Returns the address of the function in a process, and its size.
fn function_of(process: u32, memory: &File) -> Result<(u64, u64), BoxError> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or("the kernel maps no function for the time")?;
    let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).ok_or("a map has no range")?;
    let (from, to) = (u64::from_str_radix(range.0, 16)?, u64::from_str_radix(range.1, 16)?);
    let mut image = vec![0; usize::try_from(to.saturating_sub(from))?];
    memory.read_exact_at(&mut image, from)?;
    let (offset, size) = symbol(&image).ok_or("the kernel's function for the time is not found")?;
    Ok((from + offset, size))
}

/// Returns the offset and the size of the function in an ELF image.
fn symbol(image: &[u8]) -> Option<(u64, u64)> {
    let number = |at: usize, bytes: usize| {
        let field = image.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte)))
    };
    let place = |at: usize| number(at, 8).and_then(|value| usize::try_from(value).ok());
    let (sections, count) = (place(40)?, usize::try_from(number(60, 2)?).ok()?);
    let section = |index: usize| sections + 64 * index;
    // The table of dynamic symbols, and the texts that it names.
    let symbols = (0..count).map(section).find(|at| number(at + 4, 4) == Some(11))?;
    let texts = place(section(usize::try_from(number(symbols + 40, 4)?).ok()?) + 24)?;
    let (first, bytes) = (place(symbols + 24)?, place(symbols + 32)?);
    let found = (first..first + bytes).step_by(24).find(|at| {
        let name = number(*at, 4).and_then(|name| usize::try_from(name).ok());
        name.and_then(|name| image.get(texts + name..)).is_some_and(|name| name.starts_with(FUNCTION))
    })?;
    Some((number(found + 8, 8)?, number(found + 16, 8)?))
}

/// Waits until no thread of a stopped process is at one of these addresses, nor anywhere on its way to a stop.
fn wait_until_outside(process: u32, addresses: std::ops::Range<u64>) -> Result<(), BoxError> {
    let began = Instant::now();
    while began.elapsed() < STOP {
        let mut is_outside = true;
        for task in fs::read_dir(format!("/proc/{process}/task"))? {
            // A thread that has ended meanwhile is nowhere.
            let Ok(state) = fs::read_to_string(task?.path().join("syscall")) else { continue };
            let address = state.split_whitespace().next_back().and_then(|word| word.strip_prefix("0x"));
            let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            is_outside &= address.is_some_and(|address| !addresses.contains(&address));
        }
        if is_outside {
            return Ok(());
        }
        // One that stands within the function goes on for a moment.
        if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::CONT)?;
            thread::sleep(Duration::from_millis(1));
            kill_process(pid, Signal::STOP)?;
            thread::sleep(Duration::from_millis(5));
        }
    }
    Err("the process does not stand still outside of the function for the time".into())
}
