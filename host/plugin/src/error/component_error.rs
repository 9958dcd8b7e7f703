use crate::contract::{CONTRACT, ContractVersion, PluginKind};

/// The reason why bytes are not a plugin's component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ComponentError {
    /// The file is not a WebAssembly binary.
    #[error("found {what}")]
    NotWasm { what: String, mend: &'static str },
    #[error("found a core module, not a component")]
    CoreModule { mend: &'static str },
    #[error("the binary format is version {version} of layer {layer}, components have version 13 of layer 1")]
    OtherFormat { version: u16, layer: u16 },
    #[error("the file is truncated: {said} bytes should follow byte {offset}, found {there}")]
    CutOff { offset: usize, said: usize, there: usize },
    #[error("invalid component: {message} (at byte {offset})")]
    Invalid { message: String, offset: usize },
    /// Components of the contract have their functions called one by one.
    #[error(
        "the component exports `{name}` and uses the async ABI, which only a component without the contract can do"
    )]
    Async { name: String },
    #[error("the component uses a WebAssembly feature that this version of shelly-host does not support: {message}")]
    Feature { message: String },
    #[error(
        "the component {verb} `{name}`, but this host supports versions {} of the contract",
        ContractVersion::all_numbers()
    )]
    OtherContract { verb: &'static str, name: String, is_newer: bool },
    #[error("the component uses two versions of the contract: `{}` and `{}`", names[0], names[1])]
    MixedContract { names: [String; 2] },
    #[error("found a WIT package in binary form, which describes components and has no code")]
    WitPackage,
    #[error("the component exports no kind of the contract and no functions")]
    NoKind,
    #[error("the component exports {count} functions, the maximum is {most}")]
    TooManyFunctions { count: usize, most: usize },
    #[error("the component is too complex to compile: {count} {what}, the maximum is {most}")]
    TooMuchWork { what: &'static str, count: usize, most: usize },
    /// The instances that the component makes cannot be counted before it runs.
    #[error("the component passes modules or components as arguments, which this host does not support")]
    Parametric,
}

impl ComponentError {
    /// Returns a hint for the author, or for the person who installed the file.
    pub fn mend(&self) -> String {
        match self {
            Self::NotWasm { mend, .. } | Self::CoreModule { mend } => (*mend).into(),
            Self::OtherFormat { .. } => "build it with newer tools".into(),
            Self::CutOff { .. } => "copy, download or build it again".into(),
            Self::Invalid { .. } => {
                "build or copy it again; if `wasm-tools validate` reports the same error, the toolchain is at fault"
                    .into()
            }
            Self::Async { .. } => {
                "build it without `async` functions, `future` and `stream` (componentize-qjs: add --sync)".into()
            }
            Self::Feature { .. } => "build it without that feature".into(),
            Self::OtherContract { is_newer: true, .. } => {
                format!("upgrade shelly-host, or rebuild the plugin with an SDK for version {CONTRACT} of the contract")
            }
            Self::OtherContract { is_newer: false, .. } => {
                format!("rebuild the plugin with an SDK for version {CONTRACT} of the contract")
            }
            Self::MixedContract { .. } => {
                format!("rebuild the plugin with one version in its world, SDK and libraries, best {CONTRACT}")
            }
            Self::WitPackage => "replace it with the component that was built from it".into(),
            Self::Parametric => {
                "compose it so that each module and component is defined where it is instantiated".into()
            }
            Self::TooMuchWork { .. } | Self::TooManyFunctions { .. } => {
                "remove what the plugin does not need, or split it into several plugins".into()
            }
            Self::NoKind => {
                let kinds =
                    PluginKind::ALL.into_iter().filter(|kind| *kind != PluginKind::Functions).map(PluginKind::name);
                let kinds = kinds.collect::<Vec<_>>().join(", ");
                format!("export functions, or a kind of `shelly:plugin`: {kinds}")
            }
        }
    }
}
