//! The functions that a component exports: each as a tool, or with the reason why it cannot be one. They are read from
//! the binary; nothing is compiled or run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use wasmparser::{
    component_types::{ComponentEntityType, ComponentFuncType},
    types::TypesRef,
};

use super::{
    docs::WitDocs,
    names::{FunctionPath, ToolNameCandidates, tool_names},
    runtime_exports,
    wit_types::{WitField, WitType, WitTypeKind, WitTypeNames, WitTypeReader},
};
use crate::contract::of_contract;
use shelly_core::limits;

/// The exported functions of a component of kind `functions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedFunctions {
    /// The functions that a model can call, in the order of the component.
    pub functions: Vec<ExportedFunction>,
    /// The functions that a model cannot call: the name in the component, and the reason.
    pub left_out: Vec<(String, String)>,
}

/// A function that a model can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFunction {
    /// The name of the tool.
    pub tool: String,
    /// The interface and name of the function.
    pub path: FunctionPath,
    /// The parameters.
    pub params: Vec<WitField>,
    /// The type of the result, if there is one.
    pub result: Option<WitType>,
    /// The doc comment of the component.
    pub docs: Option<String>,
    /// The action of a call.
    pub act: FunctionAction,
}

/// The action of a call to such a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionAction {
    /// Calls the function.
    Call,
    /// Drops the handle of this resource that is passed. Not a function of the component: the host adds it for each
    /// resource.
    Drop(Arc<str>),
}

impl ExportedFunctions {
    /// Reads the exports with these names.
    ///
    /// # Errors
    ///
    /// The number of functions, if it exceeds [`limits::EXPORTED_FUNCTIONS`].
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
                exported.left_out.push((path.to_string(), format!("not a function of the program: {purpose}")));
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
        exported.leave_out_uncallable();
        exported.add_drops();
        exported.name();
        Ok(exported)
    }

    /// Returns `true` if handles are passed in or out: handles last as long as an instance.
    pub fn has_handles(&self) -> bool {
        self.functions.iter().any(|function| matches!(function.act, FunctionAction::Drop(_)))
    }

    /// Leaves out the functions that need a handle which no other callable function returns.
    fn leave_out_uncallable(&mut self) {
        let Self { functions, left_out } = self;
        let mut obtainable = BTreeSet::new();
        let mut waiting: Vec<_> =
            functions.iter().map(|function| (function.needed_handles(), function)).enumerate().collect();
        loop {
            let before = waiting.len();
            waiting.retain(|(_, (needed, function))| {
                let is_callable = needed.is_subset(&obtainable);
                if is_callable {
                    function.each_returned_handle(|resource| {
                        obtainable.insert(Arc::clone(resource));
                    });
                }
                !is_callable
            });
            if waiting.len() == before {
                break;
            }
        }
        let missing = |(at, (needed, _)): (usize, (BTreeSet<Arc<str>>, &ExportedFunction))| {
            Some((at, needed.difference(&obtainable).next().cloned()?))
        };
        let uncallable: BTreeMap<usize, Arc<str>> = waiting.into_iter().filter_map(missing).collect();
        let mut numbers = 0..;
        functions.retain(|function| {
            let missing = numbers.next().and_then(|at| uncallable.get(&at));
            if let Some(resource) = missing {
                let why = format!("it takes a handle of `{resource}`, and no function that can be called returns one");
                left_out.push((function.path.to_string(), why));
            }
            missing.is_none()
        });
    }

    /// Adds a tool that drops handles, for each resource of which a model can get a handle.
    fn add_drops(&mut self) {
        let mut resources = BTreeSet::new();
        for function in &self.functions {
            let interface = &function.path.interface;
            function.each_returned_handle(|resource| {
                resources.insert((Arc::clone(resource), interface.clone()));
            });
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
                docs: Some(format!("Releases a handle of `{resource}` that is no longer needed.")),
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

impl ExportedFunction {
    /// Returns the resources of which each call needs a handle.
    fn needed_handles(&self) -> BTreeSet<Arc<str>> {
        let mut needed = BTreeSet::new();
        for param in &self.params {
            param.shape.each_needed_handle(&mut |resource| {
                needed.insert(Arc::clone(resource));
            });
        }
        needed
    }

    /// Visits the resources of which a call may return a handle.
    fn each_returned_handle(&self, mut see: impl FnMut(&Arc<str>)) {
        if let Some(result) = &self.result {
            result.each(&mut |shape| {
                if let WitTypeKind::Own(resource) = &shape.form {
                    see(resource);
                }
            });
        }
    }
}

/// Reads the parameters and the result of a function.
fn taken_and_given(
    mut reader: WitTypeReader<'_>,
    of: &ComponentFuncType,
) -> Result<(Vec<WitField>, Option<WitType>), String> {
    let mut params = Vec::new();
    for (name, of) in of.params.iter() {
        params.push(WitField { name: name.as_str().into(), shape: reader.shape(of)? });
    }
    Ok((params, of.result.as_ref().map(|of| reader.shape(of)).transpose()?))
}

/// Collects the names and comments of the types, and the paths of the functions.
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

/// Visits an item, or each item of an interface, with its interface, name and type.
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

/// Returns `true` if an import contains types alone, so that nothing in it could be called.
pub fn holds_types_alone(types: TypesRef<'_>, import: &str) -> bool {
    use wasmparser::component_types::ComponentAnyTypeId::Defined;
    let Some(item) = types.component_item_for_import(import) else { return false };
    let mut is_type = true;
    each(types, import, &item.ty, &mut |_, _, entity| {
        is_type &= matches!(entity, ComponentEntityType::Type { created: Defined(_), .. });
    });
    is_type
}
