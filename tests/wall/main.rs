//! Puts one part of the wall around the compiler up, or all of it, and then tries what a subverted compiler would. Prints
//! each attempt and what the kernel said: `open: ok`, `open: EPERM`.

use std::{fs, io, net::TcpListener, os::unix::net::UnixStream, process::Command, thread, time::Duration};

use rustix::process::{Resource, Rlimit, getppid, setrlimit, test_kill_process};
use shelly_host::plugin::{CompileLimits, sandbox};

/// Bytes of memory that the wall allows here.
const MEMORY: u64 = 256 << 20;

fn main() {
    let limits = CompileLimits { memory_bytes: MEMORY, cpu: Duration::from_secs(10), ..CompileLimits::default() };
    let part = std::env::args().nth(1).unwrap_or_default();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let parent = getppid().expect("a test has started this");
    let up = match part.as_str() {
        "none" => true,
        "limits" => sandbox::bound_resources(limits).is_ok(),
        "files" => sandbox::forbid_files(),
        "calls" => sandbox::forbid_calls(),
        _ => {
            let walls = sandbox::raise(limits);
            walls.limits && walls.files && walls.calls
        }
    };
    println!("up: {up}");
    let scratch = format!("/tmp/shelly-wall-{}", std::process::id());
    let attempts: [(&str, &dyn Fn() -> io::Result<()>); 9] = [
        ("read", &|| fs::read("/etc/passwd").map(drop)),
        ("write", &|| {
            let written = fs::write(&scratch, "x");
            let _ = fs::remove_file(&scratch);
            written
        }),
        ("list", &|| fs::read_dir("/").map(drop)),
        ("socket", &|| UnixStream::pair().map(drop)),
        ("connect", &|| std::net::TcpStream::connect(address).map(drop)),
        ("exec", &|| Command::new("/bin/true").status().map(drop)),
        ("kill", &|| {
            // It stops nobody: it asks whether one could.
            test_kill_process(parent).map_err(io::Error::from)
        }),
        ("raise", &|| {
            let most = Rlimit { current: Some(4 * MEMORY), maximum: Some(4 * MEMORY) };
            setrlimit(Resource::Data, most).map_err(io::Error::from)
        }),
        ("memory", &|| {
            let mut bytes = Vec::<u8>::new();
            let size = usize::try_from(2 * MEMORY).map_err(io::Error::other)?;
            bytes.try_reserve_exact(size).map_err(|_| io::Error::from_raw_os_error(12))
        }),
    ];
    for (name, attempt) in attempts {
        match attempt() {
            Ok(()) => println!("{name}: ok"),
            Err(error) => println!("{name}: {}", error.raw_os_error().unwrap_or(-1)),
        }
    }
    // A compiler has threads and finishes.
    let sum = thread::spawn(|| (1..=10).sum::<u32>()).join();
    println!("thread: {}", if sum.is_ok_and(|sum| sum == 55) { "ok" } else { "wrong" });
}
