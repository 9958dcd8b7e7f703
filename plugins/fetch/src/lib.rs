//! The tool `http_fetch`, which fetches a URL and makes the response readable: the main content of a page as Markdown,
//! JSON indented, pictures and PDFs as media, other text as it is. For a server that is not granted the plugin has the
//! host ask for access, where the config allows it.

use std::{collections::BTreeMap, time::Duration};

use guest_kit::json;
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{
    Call, Content, Error, Reply, Tool,
    http::{self, Request, Response},
    types::{Media, Source},
};

mod page;
mod read;
mod text;

use read::Kind;

shelly_plugin::export!(tools: [HttpFetch]);

/// The time limit of a request. It is shorter than the host's limit for the call, so that the model learns of it.
const TIME: Duration = Duration::from_secs(55);

/// The maximum number of bytes that are read of a text: 1 MiB.
const TEXT: usize = 1 << 20;

/// The maximum size of a picture or document: the contract's 8 MiB.
const MEDIA: usize = 8 << 20;

/// The number of characters of a text that are shown at once. With the header they stay below the host's limit for a
/// result.
const PAGE: usize = 30_000;

/// The maximum number of characters that are shown of a redirect target, a media type and the like.
const SHOWN: usize = 300;

struct HttpFetch;

#[derive(Deserialize, JsonSchema)]
struct HttpFetchArgs {
    /// The URL, with `https://` or `http://`.
    url: String,
    /// The method; `GET` if left out.
    method: Option<String>,
    /// Headers to send.
    headers: Option<BTreeMap<String, String>>,
    /// The body to send.
    body: Option<String>,
    /// True to return the text as the server sent it: HTML and JSON as they are.
    raw: Option<bool>,
    /// The first character to show of a long text, counted from 0: the end of the page before.
    offset: Option<u64>,
}

impl Tool for HttpFetch {
    const NAME: &'static str = "http_fetch";
    const DESCRIPTION: &'static str = "Sends an HTTP request and returns the status and the body (at most 1 MiB): the \
                                       main content of a web page as Markdown, JSON indented, pictures and PDFs as \
                                       such, other text as it is. Long texts come in pages: continue with `offset`.";
    type Args = HttpFetchArgs;

    fn call(args: HttpFetchArgs, _call: &Call) -> Result<Reply, Error> {
        let wanted = Wanted { raw: args.raw.unwrap_or(false), offset: args.offset.unwrap_or(0) };
        let url = args.url.clone();
        match request(args)?.send() {
            Ok(response) => reply(response, &url, &wanted),
            Err(error) => match http::lacking(&error) {
                Some(server) => Ok(Reply::needs_server(server)),
                None => Err(error),
            },
        }
    }
}

/// The options for showing a body.
struct Wanted {
    raw: bool,
    offset: u64,
}

fn request(args: HttpFetchArgs) -> Result<Request, Error> {
    let method = args.method.unwrap_or_else(|| "GET".into()).to_ascii_uppercase();
    let url = args.url.trim();
    if !url.contains("://") {
        return Err(Error::Invalid(format!(
            "`url` has no scheme; did you mean `https://{}`?",
            shelly_plugin::text::short(url, SHOWN)
        )));
    }
    let mut request = Request::new(method, url.split('#').next().unwrap_or(url)).timeout(TIME);
    let mut has_accept = false;
    for (name, value) in args.headers.unwrap_or_default() {
        has_accept |= name.eq_ignore_ascii_case("accept");
        request = request.header(name, value);
    }
    if !has_accept {
        request = request.header("accept", "text/html, application/json, text/*;q=0.9, */*;q=0.5");
    }
    Ok(match args.body {
        Some(body) => request.body(body),
        None => request,
    })
}

fn reply(response: Response, url: &str, wanted: &Wanted) -> Result<Reply, Error> {
    let said = response.header("content-type").unwrap_or_default().to_owned();
    let status = response.status;
    let location = response.header("location").map(str::to_owned);
    let (bytes, is_all) = read::first(response.body, &said, TEXT, MEDIA)?;
    let mut head = format!("HTTP {status}");
    if let Some(location) = location {
        head += &format!(", location: {}", shelly_plugin::text::short(&location, SHOWN));
    }
    if bytes.is_empty() {
        return Ok(format!("{head}, no body").into());
    }
    match read::kind(&said, &bytes) {
        Kind::Media(_) if !is_all => Err(Error::TooLarge(format!(
            "{head}: more than {MEDIA} bytes of {}, too many to be shown",
            shelly_plugin::text::short(&said, SHOWN)
        ))),
        Kind::Media(media_type) => {
            let source = Source::Bytes(bytes);
            let media = Media { media_type: media_type.into(), name: read::file_name(url), source };
            Ok(Reply(vec![Content::Text(format!("{head}, {media_type}")), Content::Media(media)]))
        }
        Kind::Binary => {
            let said = if said.is_empty() { "unknown type" } else { &said };
            let count = if is_all { bytes.len().to_string() } else { format!("more than {}", bytes.len()) };
            Ok(format!("{head}, {count} bytes that are not text ({})", shelly_plugin::text::short(said, SHOWN)).into())
        }
        kind => {
            let text = text::decode(&said, &bytes);
            let shown = match kind {
                Kind::Page if !wanted.raw => page::markdown(&text, url),
                Kind::Json if !wanted.raw && is_all => match json::pretty(&text) {
                    // The one control character that JSON may have inside a string.
                    Some(shown) => shown.replace('\u{7f}', ""),
                    None => text,
                },
                _ => text,
            };
            Ok(paged(&head, &said, &shown, is_all, wanted.offset)?.into())
        }
    }
}

/// Returns a page of a text below a header.
fn paged(head: &str, said: &str, text: &str, is_all: bool, offset: u64) -> Result<String, Error> {
    let characters = text.chars().count() as u64;
    if offset > 0 && offset >= characters {
        return Err(Error::Invalid(format!("`offset` is {offset}, but the text has {characters} characters")));
    }
    let shown: String = text.chars().skip(offset as usize).take(PAGE).collect();
    let end = offset + shown.chars().count() as u64;
    let mut head = head.to_owned();
    if !said.is_empty() {
        head += &format!(", {}", shelly_plugin::text::short(said, SHOWN));
    }
    if offset > 0 || end < characters {
        head += &format!(", characters {offset} to {end} of {characters}");
    }
    if end < characters {
        head += &format!(": continue with `offset` {end}");
    }
    if !is_all {
        head += " (only the first MiB of the body was read)";
    }
    Ok(format!("{head}\n\n{shown}"))
}

#[cfg(test)]
mod tests;
