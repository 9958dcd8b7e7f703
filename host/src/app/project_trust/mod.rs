//! The person's consent: to what a project's own files name, and permanently trusted tools.

mod permission_facts;
mod plugin_facts;
mod project_trust_status;
mod project_trust_writer;
#[cfg(test)]
mod tests;
mod written_project;

pub use project_trust_status::ProjectTrustStatus;
