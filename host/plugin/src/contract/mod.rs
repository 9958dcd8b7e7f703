//! The names that the contract with plugins fixes: its versions, the kinds of plugins, the interfaces that they import.

mod import_requirement;
mod imported_interface;
mod plugin_kind;
mod version;

pub use import_requirement::{CHAT_KINDS, ImportRequirement, has_chat, need_of_import, need_of_interface, reads_chat};
pub use imported_interface::ImportedInterface;
pub use plugin_kind::PluginKind;
pub use version::{CONTRACT, ContractVersion, MANIFEST_FILE, UnknownContractVersion, of_contract};
