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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{need_of_import, need_of_interface};

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
}
