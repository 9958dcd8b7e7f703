//! The checks, in the order in which they are made.

mod cluster;
mod extensions;
mod machine;
mod models;
mod setup;

use super::{doctor_context::DoctorContext, finding::UnnamedFinding};

/// A check with its name. It returns at least one finding.
pub struct DoctorCheck {
    pub name: &'static str,
    pub run: fn(&DoctorContext) -> Vec<UnnamedFinding>,
}

/// All checks.
pub const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { name: "version", run: setup::version },
    DoctorCheck { name: "config", run: setup::config },
    DoctorCheck { name: "trust", run: setup::trust },
    DoctorCheck { name: "keys", run: models::keys },
    DoctorCheck { name: "models", run: models::models },
    DoctorCheck { name: "local-servers", run: models::local_servers },
    DoctorCheck { name: "default-model", run: models::default_model },
    DoctorCheck { name: "plugins", run: extensions::plugins },
    DoctorCheck { name: "mcp-servers", run: extensions::mcp_servers },
    DoctorCheck { name: "cluster", run: cluster::cluster },
    DoctorCheck { name: "directories", run: machine::directories },
    DoctorCheck { name: "sandbox", run: machine::sandbox },
    DoctorCheck { name: "terminal", run: machine::terminal },
    DoctorCheck { name: "programs", run: machine::programs },
];
