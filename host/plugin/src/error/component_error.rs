use crate::contract::{CONTRACT, PluginKind};
use shelly_core::limits;

/// The reason why bytes are not a plugin's component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ComponentError {
    /// The file is not a WebAssembly binary.
    #[error("it is {what}")]
    NotWasm { what: String, mend: &'static str },
    #[error("it is a core module, not a component")]
    CoreModule { mend: &'static str },
    #[error("its binary format is version {version} of layer {layer}, and components have version 13 of layer 1")]
    OtherFormat { version: u16, layer: u16 },
    #[error("it is cut off: {said} bytes should follow byte {offset}, and {there} do")]
    CutOff { offset: usize, said: usize, there: usize },
    #[error("it is not a valid component: {message} (at byte {offset})")]
    Invalid { message: String, offset: usize },
    /// The engine runs no component that uses any part of the async ABI.
    #[error(
        "it uses the async ABI of components, which this version of shelly-host does not run: {}",
        named(functions)
    )]
    Async { functions: Vec<String> },
    #[error("it uses a feature of WebAssembly that this version of shelly-host does not run: {message}")]
    Feature { message: String },
    #[error("it {verb} `{name}`, but this host speaks version {CONTRACT} of the contract")]
    OtherContract { verb: &'static str, name: String },
    #[error("it is a WIT package in its binary form: it describes components and holds no code")]
    WitPackage,
    #[error("it exports none of the kinds of the contract, and no functions")]
    NoKind,
    #[error("it exports {count} functions, at most {most} are taken")]
    TooManyFunctions { count: usize, most: usize },
    #[error("it is too much work to compile: {count} {what}, at most {most}")]
    TooMuchWork { what: &'static str, count: usize, most: usize },
    /// The instances that the component makes cannot be counted before it runs.
    #[error("it hands modules or components to one another, and this host takes those alone that stand in place")]
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
                "build or copy it again; if it stays so, `wasm-tools validate` says the same, and its toolchain is at fault"
                    .into()
            }
            Self::Async { .. } => "build it without `async` functions, `future` and `stream`: with one of them the engine takes \
                                   nothing of the component (componentize-qjs: add --sync)"
                .into(),
            Self::Feature { .. } => "build it without that feature".into(),
            Self::OtherContract { .. } => format!(
                "build the plugin with an SDK for version {CONTRACT} of the contract, or use a host that speaks its version"
            ),
            Self::WitPackage => "replace it with the component that was built from it".into(),
            Self::Parametric => "compose it so that each part is in the file where it is instantiated".into(),
            Self::TooMuchWork { .. } | Self::TooManyFunctions { .. } => {
                "leave out what it does not need; a plugin of many parts is better several plugins".into()
            }
            Self::NoKind => {
                let kinds = PluginKind::ALL.into_iter().filter(|kind| *kind != PluginKind::Functions).map(PluginKind::name);
                let kinds = kinds.collect::<Vec<_>>().join(", ");
                format!("export functions, or a kind of `shelly:plugin`: {kinds}")
            }
        }
    }
}

fn named(functions: &[String]) -> String {
    match functions {
        [] => "none of its functions is `async`, but the runtime in it is built for such".into(),
        functions => {
            let shown: Vec<_> = functions.iter().take(limits::NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
            let more = if functions.len() > limits::NAMES_SHOWN { ", …" } else { "" };
            format!("by {}{more}", shown.join(", "))
        }
    }
}
