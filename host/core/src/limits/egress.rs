//! Limits of the HTTP requests of plugins, and of the permissions for them.

use std::time::Duration;

use super::PLUGIN_CONCURRENCY;

// ---- HTTP requests of plugins

/// The maximum bytes of one URL, as servers commonly accept.
pub const EGRESS_URL_BYTES: usize = 8 << 10;
/// The maximum bytes of a URL in messages and events.
pub const EGRESS_SHOWN_URL_BYTES: usize = 500;
/// The maximum number of redirects that one request follows: browsers follow twenty, and ten already suggest a loop.
pub const EGRESS_HOPS: u32 = 10;
/// The maximum number of headers of one request.
pub const EGRESS_REQUEST_HEADERS: usize = 64;
/// The maximum bytes of all headers of one request, names and values: more than servers commonly accept.
pub const EGRESS_REQUEST_HEADER_BYTES: usize = 64 << 10;
/// The maximum bytes of one credential: servers refuse longer headers.
pub const EGRESS_CREDENTIAL_BYTES: usize = 8 << 10;
/// The bytes of a response line that are held back while they may contain a credential: no encoding of the longest
/// credential is longer. JSON in JSON takes seven bytes for one.
pub const EGRESS_HELD_BYTES: usize = 7 * EGRESS_CREDENTIAL_BYTES;
/// The number of credential sets of one HTTP client for which a search is cached: one for each kind of server that it
/// contacts.
pub const EGRESS_SEARCHES: usize = 64;
/// The maximum number of headers of one response. Real ones have about thirty.
pub const EGRESS_RESPONSE_HEADERS: usize = 256;
/// The maximum bytes of all headers of one response, names and values.
pub const EGRESS_RESPONSE_HEADER_BYTES: usize = 256 << 10;
/// The window in which the requests of a plugin are counted.
pub const EGRESS_RATE_WINDOW: Duration = Duration::from_secs(60);
/// The default number of requests of one plugin of an agent per minute, including redirects.
pub const EGRESS_REQUESTS_PER_MINUTE: u32 = 600;
/// The largest number of requests per minute that a config can allow: a thousand per second.
pub const EGRESS_REQUESTS_PER_MINUTE_CEILING: u32 = 60_000;
/// The default number of concurrent requests and open bodies of one plugin of an agent: one for each of its calls. A model
/// that every agent uses holds one open for each reply.
pub const EGRESS_CONCURRENCY: u32 = PLUGIN_CONCURRENCY;
/// The largest number of concurrent requests that a config can allow.
pub const EGRESS_CONCURRENCY_CEILING: u32 = 256;
/// The number of concurrent requests and open bodies of all plugins together: each holds a socket, and a process commonly
/// has 1,024 of them.
pub const EGRESS_CONCURRENCY_OF_ALL: usize = 512;
/// The default maximum bytes of the body of one request.
pub const EGRESS_REQUEST_BYTES: u64 = 16 << 20;
/// The largest request body that a config can allow, in bytes.
pub const EGRESS_REQUEST_BYTES_CEILING: u64 = 1 << 30;
/// The default maximum bytes of the body of one response, decoded.
pub const EGRESS_RESPONSE_BYTES: u64 = 64 << 20;
/// The largest response body that a config can allow, in bytes.
pub const EGRESS_RESPONSE_BYTES_CEILING: u64 = 4 << 30;
/// The bytes of a body that are passed on at once, in both directions: this much is in memory while it waits for its reader.
pub const EGRESS_CHUNK_BYTES: usize = 64 << 10;
/// The bytes of a body that a server may send over HTTP/2 before they are read.
pub const EGRESS_WINDOW_BYTES: u32 = 256 << 10;
/// The bytes that one connection may deliver without a response or a part of a body, such as interim responses (1xx) and
/// HTTP/2 frames without content: the headers of a response, the read-ahead of its body and the HTTP/2 window together are
/// less than half of it.
pub const EGRESS_IDLE_BYTES: u64 = 2 << 20;
/// The bytes of framing allowed for each part of a body: the heads of a TLS record and of an HTTP/2 frame are 31 together.
pub const EGRESS_FRAME_BYTES: u64 = 64;
/// The maximum time from the sending of a request to the end of its response, whatever the plugin asks for: no call lives
/// longer.
pub const EGRESS_TIME: Duration = Duration::from_secs(3_600);
/// The number of concurrent name lookups for all plugins. Each takes a thread until it is answered, even if it was
/// abandoned.
pub const EGRESS_LOOKUPS: usize = 32;
/// The number of idle connections to one server that are kept for each plugin of an agent.
pub const EGRESS_IDLE_CONNECTIONS: usize = 4;
/// The time that an idle connection is kept.
pub const EGRESS_IDLE_TIME: Duration = Duration::from_secs(30);
/// The time after which a silent connection is probed, so that a dead one is noticed.
pub const EGRESS_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The maximum number of HTTP clients of one plugin of an agent, one for each set of allowed addresses; beyond it all are
/// created again. One or two are usual.
pub const EGRESS_CLIENTS: usize = 16;

// ---- HTTP permissions in a config

/// The maximum number of entries in one list of HTTP permissions of a config, a `plugin.toml` or a credential: a person
/// reads them.
pub const HTTP_ENTRIES: usize = 64;
/// The maximum number of methods, and of networks, of one such entry.
pub const HTTP_ENTRY_WORDS: usize = 16;
/// The maximum number of rules to which one such list expands, with each method and each network separate: each is compared
/// with every other one, and with those of every ceiling.
pub const HTTP_RULES: usize = 256;
/// The maximum bytes of the scheme word before a credential.
pub const AUTH_SCHEME_BYTES: usize = 64;
