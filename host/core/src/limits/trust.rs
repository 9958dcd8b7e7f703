//! Limits of recorded approvals.

/// The maximum bytes of the file that records what a person trusts; when it is full, the oldest answers are removed.
pub const TRUST_STORE_BYTES: u64 = 16 << 20;
/// The maximum number of projects in it.
pub const TRUST_PROJECTS: usize = 1_000;
/// The maximum bytes recorded for one project without its MCP servers, as JSON: some thousand lines.
pub const TRUST_PROJECT_BYTES: usize = 256 << 10;
/// The maximum number of accepted plugins in a person's own folders; those accepted longest ago are removed. A new version of
/// a plugin counts as another one.
pub const TRUST_OWN_PLUGINS: usize = 1_000;
/// The maximum bytes recorded for them: as many as for one project.
pub const TRUST_OWN_PLUGINS_BYTES: usize = 256 << 10;
/// The maximum number of MCP servers of a project whose approvals are recorded; the oldest are removed.
pub const TRUST_SERVERS: usize = 64;
/// The maximum bytes recorded for them, as JSON: ten servers with the maximum number of tools.
pub const TRUST_SERVERS_BYTES: usize = 1 << 20;
/// The maximum number of versions of a project's instruction files that are remembered as seen by a person; the oldest are
/// removed. Several for each file that a project can have.
pub const INSTRUCTIONS_SEEN: usize = 2_048;
/// The maximum bytes of their texts, which are kept to show changes: several times a project's context.
pub const INSTRUCTIONS_SEEN_BYTES: usize = 1 << 20;
/// The maximum bytes of the file that holds them: each byte of a text takes at most six in JSON, and each version has a name
/// and a digest.
pub const INSTRUCTIONS_FILE_BYTES: u64 = 16 << 20;
/// The maximum number of changed lines of instruction files shown in one question; the rest is counted.
pub const INSTRUCTIONS_LINES: usize = 200;
/// The bytes of the key that identifies a person's sessions: equal to the digest's.
pub const OWN_KEY_BYTES: usize = 32;
/// The maximum bytes of the key's file: hexadecimal digits and a line end.
pub const OWN_KEY_FILE_BYTES: u64 = 128;
/// The maximum number of subjects in one trust question; nobody would read more.
pub const FACTS_SHOWN: usize = 200;
/// The maximum characters of one subject: some lines of a terminal. A longer one could hide its end.
pub const FACT_CHARS: usize = 500;
/// The maximum number of a project's subjects named in a refusal; the rest is counted.
pub const FACTS_TOLD: usize = 5;
