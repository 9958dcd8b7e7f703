//! A guest for tests: sends what a test asks for, through the host's own interface.

mod fetch;

use fetch::{FetchArgs, Fetched, turn};
use schemars::JsonSchema;
use serde::Deserialize;
// As the contract has it: the SDK's client would send nothing that is wrong.
use shelly_plugin::{Call, Error, NoArgs, Reply, Tool, bindings::imports::shelly::plugin::http};

shelly_plugin::export!(tools: [Fetch, Hold, Credentials]);

struct Fetch;

impl Tool for Fetch {
    const NAME: &'static str = "fetch";
    const DESCRIPTION: &'static str = "Sends a request.";
    type Args = FetchArgs;

    fn call(args: FetchArgs, _: &Call) -> Result<Reply, Error> {
        let mut fetched = Fetched::default();
        if let Err(error) = fetch(&args, &mut fetched) {
            let debug = format!("{error:?}");
            let case = debug.split(['(', ':', ' ']).nth(if debug.starts_with("Error::") { 2 } else { 0 });
            fetched.error = Some((case.unwrap_or_default().into(), error.message().into()));
        }
        Ok(serde_json::to_string(&fetched.looked_for(&args.look_for)).unwrap().into())
    }
}

fn request(args: &FetchArgs) -> http::Request {
    http::Request {
        method: args.method.clone().unwrap_or_else(|| "GET".into()),
        url: args.url.clone(),
        headers: args.headers.clone(),
        credential: args.credential.clone(),
        timeout_ms: args.timeout_ms,
    }
}

fn fetch(args: &FetchArgs, fetched: &mut Fetched) -> Result<(), Error> {
    let response = match &args.pieces {
        None => http::send(&request(args), args.body.as_bytes())?,
        Some((piece, times)) => {
            let upload = http::begin(&request(args))?;
            for _ in 0..*times {
                upload.write(piece.as_bytes())?;
            }
            if args.cut {
                return Ok(());
            }
            http::Upload::finish(upload)?
        }
    };
    fetched.status = Some(response.status);
    fetched.headers = response.headers;
    for _ in 0..args.reads.unwrap_or(u32::MAX) {
        let bytes = response.body.read(64 << 10)?;
        if bytes.is_empty() {
            return Ok(());
        }
        fetched.take(&bytes);
    }
    turn(args.turns);
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct HoldArgs {
    url: String,
    times: u32,
}

struct Hold;

impl Tool for Hold {
    const NAME: &'static str = "hold";
    const DESCRIPTION: &'static str = "Begins so many requests and holds what it gets.";
    type Args = HoldArgs;

    fn call(args: HoldArgs, _: &Call) -> Result<Reply, Error> {
        let (mut held, mut refused) = (Vec::new(), Vec::new());
        for _ in 0..args.times {
            let headers = Vec::new();
            let (method, url) = ("GET".into(), args.url.clone());
            match http::send(&http::Request { method, url, headers, credential: None, timeout_ms: None }, &[]) {
                Ok(response) => held.push(response),
                Err(error) => refused.push(error.message().to_owned()),
            }
        }
        Ok(format!("{} held, {} refused: {}", held.len(), refused.len(), refused.first().map_or("", |first| first))
            .into())
    }
}

struct Credentials;

impl Tool for Credentials {
    const NAME: &'static str = "credentials";
    const DESCRIPTION: &'static str = "Names the credentials that there are.";
    type Args = NoArgs;

    fn call(_: NoArgs, _: &Call) -> Result<Reply, Error> {
        Ok(http::credentials().join(" ").into())
    }
}
