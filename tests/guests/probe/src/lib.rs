//! A guest for tests: one tool for each way in which a tool can behave or misbehave.

use std::hint::black_box;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use shelly_plugin::{Call, Error, NoArgs, Reply, Tool, clock, config, fs, info, random};

shelly_plugin::export!(tools: [
    Read, Write, List, Echo, Panic, Spin, Grow, Recurse, Log, LongReply, Clock, Random, Config, Progress, Fail,
]);

/// Enough for every test.
const MAX_READ: u64 = 64 * 1024;

macro_rules! tool {
    ($type:ident($args:ty), $name:literal, $description:literal, $run:expr) => {
        struct $type;

        impl Tool for $type {
            const NAME: &'static str = $name;
            const DESCRIPTION: &'static str = $description;
            type Args = $args;

            fn call(args: $args, call: &Call) -> Result<Reply, Error> {
                let run: fn($args, &Call) -> Result<Reply, Error> = $run;
                run(args, call)
            }
        }
    };
}

#[derive(Deserialize, JsonSchema)]
struct PathArgs {
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct WriteArgs {
    path: String,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct TextArgs {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct GrowArgs {
    mib: usize,
}

#[derive(Deserialize, JsonSchema)]
struct RecurseArgs {
    depth: u32,
}

#[derive(Deserialize, JsonSchema)]
struct LogArgs {
    /// How many entries.
    lines: u32,
    /// How long each.
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct BytesArgs {
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct RandomArgs {
    len: u32,
}

#[derive(Deserialize, JsonSchema)]
struct ProgressArgs {
    n: u32,
}

#[derive(Deserialize, JsonSchema)]
struct FailArgs {
    /// A case of the contract's error: `invalid`, `denied`, `not-found`, `timeout`; else `other`.
    case: String,
}

tool!(Read(PathArgs), "read", "Reads a file.", |args, _| Ok(fs::read_to_string(&args.path, MAX_READ)?.into()));

tool!(Write(WriteArgs), "write", "Writes a file without asking.", |args, _| {
    fs::write(&args.path, args.text.as_bytes())?;
    Ok("written".into())
});

tool!(List(PathArgs), "list", "Lists a folder.", |args, _| {
    let (entries, _) = fs::read_dir(&args.path, 1_000)?;
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    Ok(names.join("\n").into())
});

tool!(Echo(TextArgs), "echo", "Says the text again.", |args, _| Ok(args.text.into()));

tool!(Panic(NoArgs), "panic", "Panics.", |_, _| panic!("asked to panic"));

tool!(Spin(NoArgs), "spin", "Never ends.", |_, _| {
    loop {
        black_box(0);
    }
});

tool!(Grow(GrowArgs), "grow", "Allocates so many MiB and touches them.", |args, _| {
    let mut blocks = Vec::new();
    for _ in 0..args.mib {
        // Not zero: zeroed memory need not be touched.
        blocks.push(black_box(vec![1_u8; 1024 * 1024]));
    }
    Ok(format!("{} MiB", blocks.len()).into())
});

tool!(Recurse(RecurseArgs), "recurse", "Calls itself so many times.", |args, _| Ok(recurse(args.depth)
    .to_string()
    .into()));

fn recurse(depth: u32) -> u32 {
    // Something on the stack that the compiler cannot do without.
    let frame = black_box([depth; 64]);
    if depth == 0 { 0 } else { recurse(frame[7] - 1) + 1 }
}

tool!(Log(LogArgs), "log", "Writes to the log.", |args, _| {
    for line in 0..args.lines {
        info!("{line} {}", "x".repeat(args.bytes));
    }
    Ok("logged".into())
});

tool!(LongReply(BytesArgs), "reply", "Says so many bytes.", |args, _| Ok("x".repeat(args.bytes).into()));

tool!(Clock(NoArgs), "clock", "Reads the clocks.", |_, _| {
    let (before, after) = (clock::monotonic(), clock::monotonic());
    Reply::json(&json!({ "now": clock::now(), "before": before, "after": after }))
});

tool!(Random(RandomArgs), "random", "Random bytes in hexadecimal.", |args, _| {
    let hex: String = random::bytes(args.len).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hex.into())
});

tool!(Config(NoArgs), "config", "The params.", |_, _| Reply::json(&config::<Value>()?));

tool!(Progress(ProgressArgs), "progress", "Reports progress so many times.", |args, call| {
    for done in 1..=args.n {
        call.progress(done.into(), Some(args.n.into()), Some("working"));
    }
    Ok("done".into())
});

tool!(Fail(FailArgs), "fail", "Fails in the given way.", |args, call| {
    let cause = format!("asked to fail in call {}", call.id);
    Err(match args.case.as_str() {
        "invalid" => Error::Invalid(cause),
        "denied" => Error::Denied(cause),
        "not-found" => Error::NotFound(cause),
        "timeout" => Error::Timeout(cause),
        _ => Error::Other(cause),
    })
});
