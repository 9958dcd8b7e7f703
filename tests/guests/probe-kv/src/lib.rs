//! A guest for tests: its store, one tool for each thing that can be done with it.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, NoArgs, Reply, Tool, kv};

shelly_plugin::export!(tools: [Get, Put, Forget, Swap, Keys, Count, Fill, Twice]);

#[derive(Deserialize, JsonSchema)]
struct KeyArgs {
    key: String,
}

#[derive(Deserialize, JsonSchema)]
struct PutArgs {
    key: String,
    value: String,
}

#[derive(Deserialize, JsonSchema)]
struct SwapArgs {
    key: String,
    expected: Option<u64>,
    value: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct KeysArgs {
    prefix: String,
    after: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct CountArgs {
    key: String,
    times: u32,
}

#[derive(Deserialize, JsonSchema)]
struct FillArgs {
    /// How many values of one MiB less their keys.
    values: u32,
}

macro_rules! tool {
    ($type:ident($args:ty), $name:literal, $description:literal, $run:expr) => {
        struct $type;

        impl Tool for $type {
            const NAME: &'static str = $name;
            const DESCRIPTION: &'static str = $description;
            type Args = $args;

            fn call(args: $args, _: &Call) -> Result<Reply, Error> {
                let run: fn($args) -> Result<Reply, Error> = $run;
                run(args)
            }
        }
    };
}

tool!(Get(KeyArgs), "kv_get", "Reads.", |args| {
    let text = |entry: kv::Entry| String::from_utf8_lossy(&entry.value).into_owned();
    Ok(kv::get(&args.key)?.map_or("nothing".to_owned(), text).into())
});

tool!(Put(PutArgs), "kv_put", "Writes.", |args| {
    kv::set(&args.key, args.value.as_bytes())?;
    Ok("kept".into())
});

tool!(Forget(KeyArgs), "kv_remove", "Removes.", |args| {
    kv::remove(&args.key)?;
    Ok("removed".into())
});

tool!(Swap(SwapArgs), "kv_swap", "Writes if the revision is as expected.", |args| {
    let value = args.value.as_ref().map(String::as_bytes);
    Ok(kv::compare_and_swap(&args.key, args.expected, value)?.to_string().into())
});

tool!(Keys(KeysArgs), "kv_keys", "Lists keys.", |args| {
    Ok(kv::keys(&args.prefix, args.after.as_deref())?.join("\n").into())
});

tool!(Count(CountArgs), "kv_count", "Adds one, so often.", |args| {
    let mut count = 0;
    for _ in 0..args.times {
        count = kv::update(&args.key, |count: Option<u64>| count.unwrap_or(0) + 1)?;
    }
    Ok(count.to_string().into())
});

tool!(Fill(FillArgs), "kv_fill", "Writes large values.", |args| {
    let value = vec![7; (1 << 20) - 4];
    for at in 0..args.values {
        kv::set(&format!("{at:04}"), &value)?;
    }
    Ok("filled".into())
});

tool!(Twice(NoArgs), "kv_typed", "Writes and reads a value of a type.", |_| {
    kv::put("typed", &("pair", 2))?;
    kv::set("text", b"no json")?;
    let (read, error) = (kv::read::<(String, u32)>("typed")?, kv::read::<u32>("text").unwrap_err());
    Ok(format!("{read:?} {}", error.message()).into())
});
