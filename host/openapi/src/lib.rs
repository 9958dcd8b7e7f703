//! OpenAPI documents as tools of agents: one tool for each operation, with the grant that its requests need.
//!
//! Neither the document nor the arguments of calls are trusted. Everything that is read is bounded, references stay within
//! the document, and a tool sends exactly the request that its operation describes: no argument changes the method, the host
//! or the path, or sets a header that identifies the sender. The host adds credentials, as for plugins.
//!
//! [`ApiListing::read`] makes an [`ApiOperation`] of each operation of a document. A config selects some of them by
//! [`OperationPattern`]s, and each becomes an [`OperationTool`]. The caller fetches documents and asks for approvals.
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
//! | `operation` | an operation: its tool's description, its grant, and the request for a call |
//! | `operation_pattern` | the names by which a config selects operations |
//! | `listing` | all operations of a document, and the reasons why some cannot be tools |
//! | `call_output`, `operation_tool` | a response as the result of a call; an operation as a tool of an agent |
//!
//! # What it must not name
//!
//! The crate names no HTTP client: its requests go through [`shelly_net::egress`]. It knows no config and no agent.

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
