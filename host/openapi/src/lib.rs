//! OpenAPI documents as tools of agents: one tool for each operation, with the grant that its requests need.
//!
//! A document comes from others, and so do the arguments of calls. Everything that is read is bounded, references stay within
//! the document, and a tool sends the one request that its operation describes: no argument leads to another method, host or
//! path, or sets a header that identifies the sender. Credentials are added by the host, as for plugins.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `shown_text` | texts of documents, bounded and legible |
//! | `document` | the text of a document, parsed within bounds; references in it |
//! | `tool_schema` | schemas of documents as schemas that the host enforces |
//! | `server` | the servers that requests go to |
//! | `parameter`, `path_template`, `multipart`, `request_body`, `security` | the parts of an operation |
//! | `operation`, `operation_pattern`, `listing` | an operation, the names by which configs select some, all of a document |
//! | `call_output`, `operation_tool` | a response as the result of a call; an operation as a tool of an agent |
//!
//! # What it must not name
//!
//! Its requests go through [`shelly_net::egress`]; it names no HTTP client. It knows no config and no agent.

mod call_output;
mod document;
mod listing;
mod multipart;
mod operation;
mod operation_pattern;
mod operation_tool;
mod parameter;
mod path_template;
mod request_body;
mod security;
mod server;
mod shown_text;
mod tool_schema;

pub use listing::{ApiListing, LeftOutOperation, ListingOptions, SelectedOperations};
pub use operation::ApiOperation;
pub use operation_pattern::OperationPattern;
pub use operation_tool::{OperationTool, origin_of};
pub use security::CredentialPlace;
