//! The functions that a component exports, each as a tool or with the reason why it is none. Read off the binary: nothing is
//! compiled or run.

use std::{collections::BTreeSet, sync::Arc};

use wasmparser::{
    component_types::{ComponentEntityType, ComponentFuncType},
    types::TypesRef,
};

use super::{
    docs::WitDocs,
    names::{FunctionPath, ToolNameCandidates, tool_names},
    runtime_exports,
    wit_types::{CONCURRENT, IS_ASYNC, WitField, WitType, WitTypeKind, WitTypeNames, WitTypeReader},
};
use crate::{limits, plugin::anatomy::of_contract};

/// What a component of kind `functions` offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedFunctions {
    /// What a model can call, in the order of the component.
    pub functions: Vec<ExportedFunction>,
    /// What it cannot: as the component names it, and why.
    pub left_out: Vec<(String, String)>,
}

/// A function that a model can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFunction {
    /// The name of its tool.
    pub tool: String,
    /// Where it is.
    pub path: FunctionPath,
    /// What it takes.
    pub params: Vec<WitField>,
    /// What it gives back.
    pub result: Option<WitType>,
    /// What the component says of it.
    pub docs: Option<String>,
    /// What calling it does.
    pub act: FunctionAction,
}

/// What a call of such a tool does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionAction {
    /// Calls the function.
    Call,
    /// Lets go of the handle that it is given, of this resource. No function of the component: each resource has it.
    Drop(Arc<str>),
}

impl ExportedFunctions {
    /// Reads the exports of these names.
    ///
    /// # Errors
    ///
    /// How many functions there are, if those are more than [`limits::EXPORTED_FUNCTIONS`].
    pub fn read(types: TypesRef<'_>, imports: &[String], exports: &[String], docs: &WitDocs) -> Result<Self, usize> {
        let (names, found) = found(types, imports, exports, docs);
        if found.len() > limits::EXPORTED_FUNCTIONS {
            return Err(found.len());
        }
        let mut exported = Self::default();
        for (path, entity) in found {
            let ComponentEntityType::Func(id) = entity else { continue };
            let Some(of) = types.get(id) else { continue };
            if let Some(purpose) = runtime_exports::purpose(&path, of) {
                exported.left_out.push((path.to_string(), format!("it is no function of the program: {purpose}")));
                continue;
            }
            match taken_and_given(WitTypeReader::new(types, &names), of) {
                Ok((params, result)) => {
                    let docs = docs.of_function(path.interface.as_deref(), &path.function).map(str::to_owned);
                    exported.functions.push(ExportedFunction {
                        tool: String::new(),
                        path,
                        params,
                        result,
                        docs,
                        act: FunctionAction::Call,
                    });
                }
                Err(why) => exported.left_out.push((path.to_string(), why)),
            }
        }
        exported.add_drops();
        exported.name();
        Ok(exported)
    }

    /// The functions because of which the engine refuses the component: as the component names them.
    pub fn concurrent(&self) -> impl Iterator<Item = &str> {
        let left_out = self.left_out.iter().filter(|(_, why)| CONCURRENT.contains(&why.as_str()));
        left_out.map(|(function, _)| function.as_str())
    }

    /// Whether handles go in or out: they last as long as an instance.
    pub fn has_handles(&self) -> bool {
        self.functions.iter().any(|function| matches!(function.act, FunctionAction::Drop(_)))
    }

    /// Each resource of which a model can get a handle has a tool that lets go of it.
    fn add_drops(&mut self) {
        let mut resources = BTreeSet::new();
        for function in &self.functions {
            for shape in function.result.iter() {
                shape.each(&mut |shape| {
                    if let WitTypeKind::Own(resource) = &shape.form {
                        resources.insert((Arc::clone(resource), function.path.interface.clone()));
                    }
                });
            }
        }
        let mut seen = BTreeSet::new();
        for (resource, interface) in resources {
            if !seen.insert(Arc::clone(&resource)) {
                continue;
            }
            let shape = WitType::of(WitTypeKind::Own(Arc::clone(&resource)));
            self.functions.push(ExportedFunction {
                tool: String::new(),
                path: FunctionPath { interface, function: format!("[drop]{resource}") },
                params: vec![WitField { name: "self".into(), shape }],
                result: None,
                docs: Some(format!("Lets go of a handle of `{resource}` that is not needed any more.")),
                act: FunctionAction::Drop(resource),
            });
        }
    }

    fn name(&mut self) {
        let naming: Vec<_> = self.functions.iter().map(|function| ToolNameCandidates::of(&function.path)).collect();
        for (function, name) in self.functions.iter_mut().zip(tool_names(&naming)) {
            function.tool = name;
        }
    }
}

/// What a function takes, and what it gives back.
fn taken_and_given(
    mut reader: WitTypeReader<'_>,
    of: &ComponentFuncType,
) -> Result<(Vec<WitField>, Option<WitType>), String> {
    if of.async_ {
        return Err(IS_ASYNC.into());
    }
    let mut params = Vec::new();
    for (name, of) in of.params.iter() {
        params.push(WitField { name: name.as_str().into(), shape: reader.shape(of)? });
    }
    Ok((params, of.result.as_ref().map(|of| reader.shape(of)).transpose()?))
}

/// What the types are called, what is said of them, and where the functions are.
fn found(
    types: TypesRef<'_>,
    imports: &[String],
    exports: &[String],
    docs: &WitDocs,
) -> (WitTypeNames, Vec<(FunctionPath, ComponentEntityType)>) {
    let (mut names, mut found) = (WitTypeNames::default(), Vec::new());
    for import in imports {
        if let Some(item) = types.component_item_for_import(import) {
            each(types, import, &item.ty, &mut |interface, name, entity| {
                if let ComponentEntityType::Type { created, .. } = entity {
                    names.add(name, true, *created, docs.of_type(interface, name));
                }
            });
        }
    }
    for export in exports.iter().filter(|export| of_contract(export).is_none()) {
        if let Some(item) = types.component_item_for_export(export) {
            each(types, export, &item.ty, &mut |interface, name, entity| match entity {
                ComponentEntityType::Type { created, .. } => {
                    names.add(name, false, *created, docs.of_type(interface, name));
                }
                ComponentEntityType::Func(_) => {
                    let path = FunctionPath { interface: interface.map(str::to_owned), function: name.to_owned() };
                    found.push((path, *entity));
                }
                _ => {}
            });
        }
    }
    (names, found)
}

/// An item, or what is in it if it is an interface: the interface, the name, what it is.
fn each(
    types: TypesRef<'_>,
    name: &str,
    entity: &ComponentEntityType,
    see: &mut impl FnMut(Option<&str>, &str, &ComponentEntityType),
) {
    let ComponentEntityType::Instance(id) = entity else { return see(None, name, entity) };
    for (inner, item) in types.get(*id).into_iter().flat_map(|instance| &instance.exports) {
        see(Some(name), inner, &item.ty);
    }
}

/// Whether an import is there for its types alone: nothing in it could be called.
pub fn holds_types_alone(types: TypesRef<'_>, import: &str) -> bool {
    use wasmparser::component_types::ComponentAnyTypeId::Defined;
    let Some(item) = types.component_item_for_import(import) else { return false };
    let mut is_type = true;
    each(types, import, &item.ty, &mut |_, _, entity| {
        is_type &= matches!(entity, ComponentEntityType::Type { created: Defined(_), .. });
    });
    is_type
}
