use std::collections::BTreeMap;

use wasmtime::component::{Component, ComponentExportIndex};

use crate::{
    functions::{FunctionAction, FunctionPath},
    package::PluginPackage,
};

/// The export indices of a component's own functions, looked up once.
pub type FunctionIndices = BTreeMap<FunctionPath, ComponentExportIndex>;

/// Looks up the exports of the functions that are tools.
pub fn find_functions(package: &PluginPackage, component: &Component) -> wasmtime::Result<FunctionIndices> {
    let calls = package.offer.tools.iter().filter(|tool| matches!(tool.function.act, FunctionAction::Call));
    let index = |path: &FunctionPath| {
        let interface = path.interface.as_ref().map(|name| component.get_export_index(None, &**name));
        component.get_export_index(interface.flatten().as_ref(), &*path.function).ok_or_else(|| no_function(path))
    };
    calls.map(|tool| Ok((tool.function.path.clone(), index(&tool.function.path)?))).collect()
}

/// Returns the error for an exported function that the engine does not find.
pub fn no_function(path: &FunctionPath) -> wasmtime::Error {
    wasmtime::format_err!("the component exports no function `{path}`")
}
