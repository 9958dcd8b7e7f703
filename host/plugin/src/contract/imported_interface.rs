use super::{import_requirement::need_of_import, version::of_contract};

/// An interface whose calls are counted: one of the contract, or a package of WASI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedInterface {
    Log,
    Config,
    Progress,
    Sink,
    Attachments,
    Outgoing,
    Chat,
    Clock,
    Random,
    Kv,
    Http,
    Process,
    WasiFilesystem,
    WasiHttp,
    WasiIo,
    WasiClocks,
    WasiRandom,
    WasiCli,
    WasiSockets,
}

impl ImportedInterface {
    /// All interfaces, each at the position of its number.
    pub const ALL: [Self; 19] = [
        Self::Log,
        Self::Config,
        Self::Progress,
        Self::Sink,
        Self::Attachments,
        Self::Outgoing,
        Self::Chat,
        Self::Clock,
        Self::Random,
        Self::Kv,
        Self::Http,
        Self::Process,
        Self::WasiFilesystem,
        Self::WasiHttp,
        Self::WasiIo,
        Self::WasiClocks,
        Self::WasiRandom,
        Self::WasiCli,
        Self::WasiSockets,
    ];

    /// Returns the name of the interface in the contract, or of the package of WASI.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Config => "config",
            Self::Progress => "progress",
            Self::Sink => "sink",
            Self::Attachments => "attachments",
            Self::Outgoing => "outgoing",
            Self::Chat => "chat",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::Kv => "kv",
            Self::Http => "http",
            Self::Process => "process",
            Self::WasiFilesystem => "wasi:filesystem",
            Self::WasiHttp => "wasi:http",
            Self::WasiIo => "wasi:io",
            Self::WasiClocks => "wasi:clocks",
            Self::WasiRandom => "wasi:random",
            Self::WasiCli => "wasi:cli",
            Self::WasiSockets => "wasi:sockets",
        }
    }

    /// Returns the use of the interface in a few words, for a person who decides about a plugin.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Log => "writes to the log",
            Self::Config => "reads its params",
            Self::Progress => "reports progress",
            Self::Sink => "streams its reply",
            Self::Attachments => "reads attached media",
            Self::Outgoing => "reads the request to a model",
            Self::Chat => "reads the conversation",
            Self::Clock | Self::WasiClocks => "reads the time",
            Self::Random | Self::WasiRandom => "gets random numbers",
            Self::Kv => "keeps values in a store",
            Self::Http | Self::WasiHttp => "sends HTTP requests",
            Self::Process => "has programs run",
            Self::WasiFilesystem => "reads or writes files",
            Self::WasiIo => "reads and writes streams",
            Self::WasiCli => "standard streams, environment",
            Self::WasiSockets => "network sockets, never connected",
        }
    }

    /// Returns the interface of an import by its name in a component; `None` if this host does not provide it.
    pub fn of_import(import: &str) -> Option<Self> {
        need_of_import(import)?;
        let name = match of_contract(import) {
            Some((interface, _)) => interface,
            None => import.split_once('/')?.0,
        };
        Self::ALL.into_iter().find(|interface| interface.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::need_of_interface;

    #[test]
    fn counted_interfaces_are_those_that_are_linked() {
        for (position, interface) in ImportedInterface::ALL.into_iter().enumerate() {
            assert_eq!(interface as usize, position, "{interface:?}");
            let known = match interface.name().strip_prefix("wasi:") {
                // One interface stands for each package.
                Some("filesystem" | "http") => need_of_import(&format!("{}/types@0.2.0", interface.name())),
                Some("io") => need_of_import("wasi:io/streams@0.2.0"),
                Some("clocks") => need_of_import("wasi:clocks/wall-clock@0.2.0"),
                Some("random") => need_of_import("wasi:random/random@0.2.0"),
                Some("cli") => need_of_import("wasi:cli/exit@0.2.0"),
                Some(_) => need_of_import("wasi:sockets/network@0.2.0"),
                None => need_of_interface(interface.name()),
            };
            assert!(known.is_some(), "{interface:?}");
        }
    }

    #[test]
    fn import_is_recognised_by_its_name() {
        for (import, interface) in [
            ("shelly:plugin/kv@0.1.0", Some(ImportedInterface::Kv)),
            ("wasi:filesystem/preopens@0.2.3", Some(ImportedInterface::WasiFilesystem)),
            ("wasi:sockets/tcp@0.2.0", Some(ImportedInterface::WasiSockets)),
            ("wasi:filesystem/types@0.3.0", None),
            ("shelly:plugin/teleport@0.1.0", None),
            ("a:b/c@0.2.0", None),
        ] {
            assert_eq!(ImportedInterface::of_import(import), interface, "{import}");
        }
    }
}
