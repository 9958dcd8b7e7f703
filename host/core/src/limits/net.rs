//! Limits of outgoing HTTP: retries, rates, proxies, secrets.

use std::time::Duration;

/// The largest number of retries of a request that a config can set: more only keep a busy server busy.
pub const HTTP_RETRIES_CEILING: usize = 10;
/// The default maximum total of delays between the attempts of one request: two long ones that a server asks for.
pub const RETRY_WAITING: Duration = Duration::from_secs(120);
/// The largest total of delays between the attempts of one request that a config can set.
pub const RETRY_WAITING_CEILING: Duration = Duration::from_secs(600);
/// The longest delay that doubling reaches: a server that is still unavailable then has a longer outage.
pub const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The largest number of requests or tokens that is accepted as a server's limit. No account has more.
pub const RATE_CEILING: u64 = 1_000_000_000_000;
/// The longest time that is accepted for the reset of a server's limit: accounts are counted by the month at most.
pub const RATE_RESET_CEILING: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// The maximum bytes of one header that reports a server's limit. A date has about 30.
pub const RATE_HEADER_BYTES: usize = 64;
/// The maximum bytes shown of a header of a server.
pub const SHOWN_HEADER_BYTES: usize = 64;
/// The maximum bytes of the URL of a proxy, including user and password.
pub const PROXY_URL_BYTES: usize = 2 << 10;
/// The maximum number of servers that are contacted without the proxy.
pub const PROXY_EXCEPTIONS: usize = 256;
/// The maximum bytes of one such entry: a domain name has at most 253.
pub const PROXY_EXCEPTION_BYTES: usize = 256;
/// The maximum bytes of the source of a secret, and of a secret. The longest tokens have about 4 KiB.
pub const SECRET_BYTES: u64 = 64 << 10;
/// The wall time of a command that prints a secret: a person may have to unlock it.
pub const SECRET_COMMAND_TIME: Duration = Duration::from_secs(60);
/// The time to wait for the error output of such a command, once it has ended.
pub const SECRET_COMMAND_GRACE: Duration = Duration::from_millis(500);
/// The maximum bytes shown of such a command's error output.
pub const SECRET_COMMAND_ERROR_BYTES: usize = 1 << 10;
/// The maximum number of words of such a command, including the program.
pub const SECRET_COMMAND_WORDS: usize = 64;
/// The maximum number of cached secrets from files and commands, each of which is read once; also of those that are only
/// remembered so that nothing shows them.
pub const SECRETS_KEPT: usize = 256;
