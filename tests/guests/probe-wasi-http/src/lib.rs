//! A guest for tests: sends what a test asks for, through `wasi:http`.

#[path = "../../probe-http/src/fetch.rs"]
mod fetch;

use fetch::{FetchArgs, Fetched, turn};
use shelly_plugin::{Call, Error, Reply, Tool};
use wasip2::{
    http::{
        outgoing_handler::handle,
        types::{ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme},
    },
    io::streams::StreamError,
};

shelly_plugin::export!(tools: [Fetch]);

struct Fetch;

impl Tool for Fetch {
    const NAME: &'static str = "fetch";
    const DESCRIPTION: &'static str = "Sends a request.";
    type Args = FetchArgs;

    fn call(args: FetchArgs, _: &Call) -> Result<Reply, Error> {
        let mut fetched = Fetched::default();
        fetched.error = fetch(&args, &mut fetched).err();
        Ok(serde_json::to_string(&fetched.looked_for(&args.look_for)).unwrap().into())
    }
}

type Failed = (String, String);

fn failed(case: &str, why: impl std::fmt::Debug) -> Failed {
    (case.into(), format!("{why:?}"))
}

fn of_code(code: ErrorCode) -> Failed {
    let debug = format!("{code:?}");
    let case = debug.trim_start_matches("ErrorCode::").split(['(', ' ']).next().unwrap_or_default();
    (case.into(), debug.clone())
}

fn request(args: &FetchArgs) -> Result<OutgoingRequest, Failed> {
    let headers = Fields::new();
    for (name, value) in &args.headers {
        headers.append(name, value.as_bytes()).map_err(|error| failed("HeaderError", error))?;
    }
    let request = OutgoingRequest::new(headers);
    let method = match args.method.as_deref().unwrap_or("GET") {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "CONNECT" => Method::Connect,
        "TRACE" => Method::Trace,
        other => Method::Other(other.into()),
    };
    let (scheme, rest) = args.url.split_once("://").unwrap_or(("https", &args.url));
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.into()),
    };
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    request.set_method(&method).map_err(|()| failed("Method", method))?;
    request.set_scheme(Some(&scheme)).map_err(|()| failed("Scheme", scheme))?;
    request.set_authority(Some(&rest[..at])).map_err(|()| failed("Authority", &rest[..at]))?;
    request.set_path_with_query(Some(&rest[at..])).map_err(|()| failed("Path", &rest[at..]))?;
    Ok(request)
}

fn fetch(args: &FetchArgs, fetched: &mut Fetched) -> Result<(), Failed> {
    let request = request(args)?;
    let options = RequestOptions::new();
    if let Some(time) = args.timeout_ms {
        let time = Some(u64::from(time) * 1_000_000);
        let _ = (options.set_first_byte_timeout(time), options.set_between_bytes_timeout(time));
    }
    let (piece, times) = args.pieces.clone().unwrap_or((args.body.clone(), 1));
    let has_body = !piece.is_empty();
    let body = request.body().map_err(|()| failed("Body", "taken"))?;
    let future = handle(request, Some(options)).map_err(of_code)?;
    let mut is_refused = None;
    if has_body {
        let stream = body.write().map_err(|()| failed("Stream", "taken"))?;
        for _ in 0..times {
            // At most so much at once.
            for part in piece.as_bytes().chunks(4_096) {
                if let Err(error) = stream.blocking_write_and_flush(part) {
                    is_refused = Some(failed("Write", error));
                    break;
                }
            }
        }
    }
    if args.cut {
        drop(body);
        return Ok(());
    }
    match is_refused {
        // Why, the answer says.
        Some(_) => drop(body),
        None => OutgoingBody::finish(body, None).map_err(of_code)?,
    }
    let response = loop {
        match future.get() {
            Some(answer) => break answer.map_err(|()| failed("Future", "taken"))?.map_err(of_code)?,
            None => future.subscribe().block(),
        }
    };
    read(args, &response, fetched)
}

fn read(args: &FetchArgs, response: &IncomingResponse, fetched: &mut Fetched) -> Result<(), Failed> {
    fetched.status = Some(response.status());
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    fetched.headers = response.headers().entries().iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let body = response.consume().map_err(|()| failed("Consume", "taken"))?;
    let stream = body.stream().map_err(|()| failed("Stream", "taken"))?;
    for _ in 0..args.reads.unwrap_or(u32::MAX) {
        match stream.blocking_read(64 << 10) {
            Ok(bytes) => fetched.take(&bytes),
            Err(StreamError::Closed) => return Ok(()),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(("Read".into(), error.to_debug_string()));
            }
        }
    }
    turn(args.turns);
    Ok(())
}
