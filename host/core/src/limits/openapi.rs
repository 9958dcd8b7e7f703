//! Limits of OpenAPI documents and of the tools that are made of them.

use std::time::Duration;

use super::{MCP_TOOLS, MEDIA_BYTES, TOOL_SCHEMA_BYTES};

/// The maximum number of APIs in a config: a person reads them.
pub const OPENAPI_APIS: usize = 64;
/// The maximum number of operations that a config names for one agent and one API: a person reads them.
pub const OPENAPI_PATTERNS: usize = 256;
/// The maximum bytes of one such name.
pub const OPENAPI_PATTERN_BYTES: usize = 512;
/// The maximum bytes of a document. The largest of common services have about seven million.
pub const OPENAPI_DOCUMENT_BYTES: usize = 8 << 20;
/// The time in which a document must arrive.
pub const OPENAPI_FETCH_TIME: Duration = Duration::from_secs(30);
/// The maximum number of values in a document, lists and objects counted with their content: each takes about a hundred
/// bytes once it is read, although it may be only two bytes long.
pub const OPENAPI_VALUES: usize = 500_000;
/// The maximum nesting depth of a document: below the limit of the JSON parser, which is 127.
pub const OPENAPI_DEPTH: usize = 100;
/// The maximum number of operations of one document that are read. The largest known have about a thousand.
pub const OPENAPI_OPERATIONS: usize = 2_048;
/// The maximum number of servers to which the operations of one document send requests: a person consents to each.
pub const OPENAPI_SERVERS: usize = 16;
/// The maximum number of operations of one API that an agent has as tools: as many as tools of one MCP server.
pub const OPENAPI_TOOLS: usize = MCP_TOOLS;
/// The maximum number of parameters of one operation. The largest known have about forty.
pub const OPENAPI_PARAMETERS: usize = 128;
/// The maximum number of references that lead to each other, or stand within each other.
pub const OPENAPI_REFERENCES: usize = 32;
/// The maximum number of schemas of which the schema of one tool is made; references are counted wherever they lead.
pub const OPENAPI_SCHEMA_NODES: usize = 2_000;
/// The maximum nesting depth of schemas in that of a tool; deeper ones admit every value. Twice as many lists and objects
/// stay below the limit of a tool's schema.
pub const OPENAPI_SCHEMA_DEPTH: usize = 12;
/// The maximum bytes of a tool's schema. A longer one would fill the model's window, and is simplified until it fits.
pub const OPENAPI_SCHEMA_BYTES: usize = TOOL_SCHEMA_BYTES / 4;
/// The maximum characters of the description of an operation; the rest is cut. Some documents contain whole manuals.
pub const OPENAPI_DESCRIPTION_CHARS: usize = 2_000;
/// The maximum characters of the description of a parameter or a property; the rest is cut.
pub const OPENAPI_PROPERTY_CHARS: usize = 300;
/// The maximum number of parts of a body of type `multipart/form-data`: each has a head of its own, which may be longer than
/// its content.
pub const OPENAPI_PARTS: usize = 1_000;
/// The maximum bytes of the name of a file, and of its media type, in such a body: as many as file systems allow.
pub const OPENAPI_FILE_NAME_BYTES: usize = 255;
/// The maximum bytes of a response that a model reads or is attached.
pub const OPENAPI_RESPONSE_BYTES: usize = MEDIA_BYTES;
/// The maximum characters of the body of an error response that a model reads; the rest is cut.
pub const OPENAPI_ERROR_CHARS: usize = 4_000;
/// The maximum characters of a response header that a model reads; the rest is cut.
pub const OPENAPI_HEADER_CHARS: usize = 1_000;
