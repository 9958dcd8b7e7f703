//! Connects agents to APIs that OpenAPI documents describe: documents, approvals of operations, and their tools.

mod api_check;
mod api_documents;
mod granted_api;

pub use api_documents::ReadApi;
pub(crate) use granted_api::{GrantedApi, ReachedApis};
