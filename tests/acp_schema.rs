//! The JSON Schema of the Agent Client Protocol, from the types of its authors.

use agent_client_protocol_schema::v1;
use schemars::generate::SchemaSettings;

/// The requests of an editor.
type EditorRequests = (
    v1::InitializeRequest,
    v1::NewSessionRequest,
    v1::LoadSessionRequest,
    v1::ResumeSessionRequest,
    v1::ListSessionsRequest,
    v1::CloseSessionRequest,
    v1::SetSessionModeRequest,
    v1::PromptRequest,
);

/// The answers to them.
type EditorAnswers = (
    v1::InitializeResponse,
    v1::NewSessionResponse,
    v1::LoadSessionResponse,
    v1::ResumeSessionResponse,
    v1::ListSessionsResponse,
    v1::CloseSessionResponse,
    v1::SetSessionModeResponse,
    v1::PromptResponse,
    v1::Error,
);

/// The requests and notifications of an agent.
type AgentMessages = (
    v1::SessionNotification,
    v1::RequestPermissionRequest,
    v1::CreateElicitationRequest,
    v1::CancelRequestNotification,
    v1::ReadTextFileRequest,
    v1::WriteTextFileRequest,
);

/// Returns the definitions of the messages, each under the name of its type, and of everything in them.
pub fn generate() -> String {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    // Each message of a tuple becomes a definition.
    generator.subschema_for::<(EditorRequests, EditorAnswers, AgentMessages)>();
    let definitions = generator.take_definitions(true);
    serde_json::json!({ "$defs": definitions }).to_string()
}
