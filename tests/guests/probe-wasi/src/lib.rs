//! A guest for tests: tries each interface of WASI's base, and says what it saw.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use shelly_plugin::{Call, Error, NoArgs, Reply, Tool};
use wasip2::{
    cli::{environment, exit, stderr, stdin, stdout, terminal_stderr, terminal_stdin, terminal_stdout},
    clocks::{monotonic_clock, wall_clock},
    filesystem::preopens,
    io::{
        poll::{Pollable, poll},
        streams::{OutputStream, StreamError},
    },
    random::{insecure, insecure_seed, random},
    sockets::{
        instance_network::instance_network,
        ip_name_lookup::resolve_addresses,
        network::{ErrorCode, IpAddressFamily},
        tcp_create_socket::create_tcp_socket,
        udp_create_socket::create_udp_socket,
    },
};

shelly_plugin::export!(tools: [See, Print, Exit, Random, Sleep, Spin, Hold, Wait, Output]);

/// What is there.
struct See;

impl Tool for See {
    const NAME: &'static str = "see";
    const DESCRIPTION: &'static str = "Says what it sees of the world.";
    type Args = NoArgs;

    fn call(_: NoArgs, _: &Call) -> Result<Reply, Error> {
        let refused = |refused: Option<ErrorCode>| refused.map(|code| code.name());
        let now = wall_clock::now();
        let seed = insecure_seed::insecure_seed();
        let folders: Vec<_> = preopens::get_directories().into_iter().map(|(_, name)| name).collect();
        let terminals = [
            terminal_stdin::get_terminal_stdin().is_some(),
            terminal_stdout::get_terminal_stdout().is_some(),
            terminal_stderr::get_terminal_stderr().is_some(),
        ];
        Ok(json!({
            "variables": environment::get_environment(),
            "arguments": environment::get_arguments(),
            "cwd": environment::initial_cwd(),
            "stdin_is_at_its_end": matches!(stdin::get_stdin().blocking_read(1), Err(StreamError::Closed)),
            "terminals": terminals,
            "wall_clock": [now.seconds, u64::from(now.nanoseconds)],
            "readings": [monotonic_clock::now(), monotonic_clock::now()],
            "random": [random::get_random_u64(), insecure::get_insecure_random_u64(), seed.0, seed.1],
            "random_bytes": random::get_random_bytes(20),
            "folders": folders,
            "tcp": refused(create_tcp_socket(IpAddressFamily::Ipv4).err()),
            "udp": refused(create_udp_socket(IpAddressFamily::Ipv6).err()),
            "lookup": refused(resolve_addresses(&instance_network(), "localhost").err()),
        })
        .to_string()
        .into())
    }
}

fn write(stream: &OutputStream, text: &str) {
    for piece in text.as_bytes().chunks(4_096) {
        stream.blocking_write_and_flush(piece).unwrap();
    }
}

#[derive(Deserialize, JsonSchema)]
struct PrintArgs {
    text: String,
    /// How often.
    times: u32,
}

/// Writes to its standard output, and once to its standard error.
struct Print;

impl Tool for Print {
    const NAME: &'static str = "print";
    const DESCRIPTION: &'static str = "Prints.";
    type Args = PrintArgs;

    fn call(PrintArgs { text, times }: PrintArgs, _: &Call) -> Result<Reply, Error> {
        let output = stdout::get_stdout();
        for _ in 0..times {
            write(&output, &text);
        }
        write(&stderr::get_stderr(), &text);
        Ok("printed".into())
    }
}

#[derive(Deserialize, JsonSchema)]
struct CountArgs {
    count: u64,
}

/// Ends itself: 0 is `ok`, 1 an error.
struct Exit;

impl Tool for Exit {
    const NAME: &'static str = "exit";
    const DESCRIPTION: &'static str = "Ends itself in the middle of a call.";
    type Args = CountArgs;

    fn call(CountArgs { count }: CountArgs, _: &Call) -> Result<Reply, Error> {
        write(&stdout::get_stdout(), "last words");
        match count {
            0 => exit::exit(Ok(())),
            1 => exit::exit(Err(())),
            code => exit::exit_with_code(code as u8),
        }
        Ok("still here".into())
    }
}

/// Asks for so many random bytes.
struct Random;

impl Tool for Random {
    const NAME: &'static str = "random";
    const DESCRIPTION: &'static str = "Random bytes.";
    type Args = CountArgs;

    fn call(CountArgs { count }: CountArgs, _: &Call) -> Result<Reply, Error> {
        Ok(random::get_random_bytes(count).len().to_string().into())
    }
}

/// Sleeps for so many milliseconds; says how many its clock has gone on by.
struct Sleep;

impl Tool for Sleep {
    const NAME: &'static str = "sleep";
    const DESCRIPTION: &'static str = "Sleeps.";
    type Args = CountArgs;

    fn call(CountArgs { count }: CountArgs, _: &Call) -> Result<Reply, Error> {
        let before = monotonic_clock::now();
        monotonic_clock::subscribe_duration(count.saturating_mul(1_000_000)).block();
        Ok(((monotonic_clock::now() - before) / 1_000_000).to_string().into())
    }
}

/// Looks at the clock until so many milliseconds are over; says how often.
struct Spin;

impl Tool for Spin {
    const NAME: &'static str = "spin";
    const DESCRIPTION: &'static str = "Waits by looking at the clock.";
    type Args = CountArgs;

    fn call(CountArgs { count }: CountArgs, _: &Call) -> Result<Reply, Error> {
        let (until, mut looks) = (monotonic_clock::now() + count * 1_000_000, 0_u32);
        while monotonic_clock::now() < until {
            looks += 1;
        }
        Ok(looks.to_string().into())
    }
}

/// Holds so many things to wait for.
struct Hold;

impl Tool for Hold {
    const NAME: &'static str = "hold";
    const DESCRIPTION: &'static str = "Holds timers.";
    type Args = CountArgs;

    fn call(CountArgs { count }: CountArgs, _: &Call) -> Result<Reply, Error> {
        let held: Vec<Pollable> = (0..count).map(|_| monotonic_clock::subscribe_duration(1)).collect();
        Ok(held.len().to_string().into())
    }
}

/// Waits for one thing so many times at once.
struct Wait;

impl Tool for Wait {
    const NAME: &'static str = "wait";
    const DESCRIPTION: &'static str = "Waits for many things at once.";
    type Args = CountArgs;

    fn call(CountArgs { count }: CountArgs, _: &Call) -> Result<Reply, Error> {
        let one = monotonic_clock::subscribe_duration(1);
        Ok(poll(&vec![&one; count as usize]).len().to_string().into())
    }
}

/// Writes so many bytes at once, without asking how many it may.
struct Output;

impl Tool for Output {
    const NAME: &'static str = "output";
    const DESCRIPTION: &'static str = "Writes at once.";
    type Args = CountArgs;

    fn call(CountArgs { count }: CountArgs, _: &Call) -> Result<Reply, Error> {
        let bytes = vec![b'\n'; count as usize];
        stdout::get_stdout().write(&bytes).map_err(|error| Error::Other(error.to_string()))?;
        Ok("written".into())
    }
}
