//! Counts, in one pass over a component, the work that it causes for a validator and a compiler, before either begins.
//!
//! Both take memory and time that grow faster than the bytes: a component of 700 bytes can ask for a billion instances,
//! and one function of 20 kB for gigabytes of compiler memory. This pass does not validate: an invalid index counts as
//! nothing, since the validator refuses it afterwards.

use wasmparser::{
    BinaryReaderError, BlockType, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, CompositeInnerType, ElementItems, Encoding, FunctionBody, Instance, Operator, Payload, TypeRef,
};

use crate::error::ComponentError;
use shelly_core::limits;

/// The counts of the part of a component that has been read. Pass each payload to [`ComplexityCounter::count`] in
/// order.
#[derive(Default)]
pub struct ComplexityCounter {
    /// The modules and components that have not ended, the outermost first.
    open: Vec<BinaryScope>,
    modules: usize,
    components: usize,
    structure_bytes: usize,
    elements: usize,
    element_expressions: usize,
    functions: usize,
    code_bytes: usize,
}

enum BinaryScope {
    Module(CoreModuleCounts),
    Component(ComponentCounts),
}

/// The counts of a core module as far as it has been read.
#[derive(Default)]
struct CoreModuleCounts {
    types: Vec<SignatureArity>,
    /// The type of each function, imported ones first.
    functions: Vec<SignatureArity>,
    /// The number of functions that are imported or whose body has been read.
    bodies: usize,
    /// The largest number of values in any of its types.
    widest: usize,
}

/// The number of values that a function or a block takes and returns.
#[derive(Clone, Copy, Default)]
struct SignatureArity {
    params: usize,
    results: usize,
}

/// The counts of a component as far as it has been read.
#[derive(Default)]
struct ComponentCounts {
    /// The counts of each component in its index space.
    components: Vec<InstanceCounts>,
    /// The instances that one instance of this component makes.
    makes: InstanceCounts,
}

/// The number of instances that one instance of a component makes, including those of all nested components.
#[derive(Clone, Copy, Default)]
struct InstanceCounts {
    core: usize,
    all: usize,
}

impl InstanceCounts {
    fn add(&mut self, more: Self) {
        self.core = self.core.saturating_add(more.core);
        self.all = self.all.saturating_add(more.all);
    }
}

/// The reason why counting stopped.
pub enum ComplexityError {
    /// The bytes cannot be read.
    Broken(BinaryReaderError),
    /// A bound was exceeded.
    Refused(ComponentError),
}

impl From<BinaryReaderError> for ComplexityError {
    fn from(error: BinaryReaderError) -> Self {
        Self::Broken(error)
    }
}

impl From<ComponentError> for ComplexityError {
    fn from(refused: ComponentError) -> Self {
        Self::Refused(refused)
    }
}

impl ComplexityCounter {
    /// Counts the next payload.
    ///
    /// # Errors
    ///
    /// [`ComplexityError`] at the first payload that cannot be read or exceeds one of the bounds in [`limits`].
    pub fn count(&mut self, payload: &Payload<'_>) -> Result<(), ComplexityError> {
        let is_structure = !matches!(
            payload,
            Payload::ModuleSection { .. }
                | Payload::ComponentSection { .. }
                | Payload::CodeSectionStart { .. }
                | Payload::DataSection(_)
                | Payload::CustomSection(_)
        );
        if let Some((_, range)) = payload.as_section().filter(|_| is_structure) {
            self.structure_bytes += range.len();
            at_most(
                "bytes in sections other than code and data",
                self.structure_bytes,
                limits::COMPONENT_STRUCTURE_BYTES,
            )?;
        }
        match payload {
            Payload::Version { encoding, .. } => return self.begin(*encoding),
            Payload::End(_) => return self.end(),
            Payload::ElementSection(section) => {
                for element in section.clone() {
                    self.elements += match element?.items {
                        ElementItems::Functions(items) => items.count() as usize,
                        ElementItems::Expressions(_, items) => {
                            self.element_expressions += items.count() as usize;
                            items.count() as usize
                        }
                    };
                    at_most("items in element segments", self.elements, limits::COMPONENT_ELEMENTS)?;
                    at_most(
                        "expressions in element segments",
                        self.element_expressions,
                        limits::COMPONENT_ELEMENT_EXPRESSIONS,
                    )?;
                }
            }
            Payload::CodeSectionEntry(body) => {
                self.functions += 1;
                self.code_bytes += body.range().len();
                at_most("functions", self.functions, limits::COMPONENT_FUNCTIONS)?;
                at_most("bytes of code", self.code_bytes, limits::COMPONENT_CODE_BYTES)?;
            }
            _ => {}
        }
        let outer = self.open.len().saturating_sub(1);
        let (around, last) = self.open.split_at_mut(outer);
        match last.first_mut() {
            Some(BinaryScope::Module(module)) => module.count(payload),
            Some(BinaryScope::Component(component)) => component.count(payload, around),
            None => Ok(()),
        }
    }

    fn begin(&mut self, encoding: Encoding) -> Result<(), ComplexityError> {
        self.open.push(match encoding {
            Encoding::Module => {
                self.modules += 1;
                BinaryScope::Module(CoreModuleCounts::default())
            }
            Encoding::Component => {
                self.components += 1;
                BinaryScope::Component(ComponentCounts::default())
            }
        });
        at_most("core modules", self.modules, limits::COMPONENT_MODULES)?;
        at_most("components", self.components, limits::COMPONENT_COMPONENTS)?;
        at_most("nested components", self.open.len(), limits::COMPONENT_DEPTH)?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), ComplexityError> {
        if let Some(BinaryScope::Component(ended)) = self.open.pop() {
            at_most(
                "core instances, including those of nested components",
                ended.makes.core,
                limits::PLUGIN_CORE_INSTANCES_CEILING,
            )?;
            at_most("instances, including those of nested components", ended.makes.all, limits::COMPONENT_INSTANCES)?;
            if let Some(BinaryScope::Component(around)) = self.open.last_mut() {
                around.components.push(ended.makes);
            }
        }
        Ok(())
    }
}

impl ComponentCounts {
    fn count(&mut self, payload: &Payload<'_>, around: &[BinaryScope]) -> Result<(), ComplexityError> {
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    let core = usize::from(matches!(instance?, Instance::Instantiate { .. }));
                    self.makes.add(InstanceCounts { core, all: 1 });
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    self.makes.add(InstanceCounts { core: 0, all: 1 });
                    if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                        self.makes.add(self.component(component_index));
                    }
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    if let ComponentTypeRef::Component(_) | ComponentTypeRef::Module(_) = import?.ty {
                        return Err(ComponentError::Parametric.into());
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section.clone() {
                    match alias? {
                        ComponentAlias::InstanceExport {
                            kind: ComponentExternalKind::Component | ComponentExternalKind::Module,
                            ..
                        } => return Err(ComponentError::Parametric.into()),
                        ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count: 0, index } => {
                            self.components.push(self.component(index));
                        }
                        ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                            let scope = around.len().checked_sub(count as usize).and_then(|at| around.get(at));
                            self.components.push(match scope {
                                Some(BinaryScope::Component(outer)) => outer.component(index),
                                _ => InstanceCounts::default(),
                            });
                        }
                        _ => {}
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    let export = export?;
                    // An export adds an entry to the index space.
                    if export.kind == ComponentExternalKind::Component {
                        self.components.push(self.component(export.index));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn component(&self, index: u32) -> InstanceCounts {
        self.components.get(index as usize).copied().unwrap_or_default()
    }
}

impl CoreModuleCounts {
    fn count(&mut self, payload: &Payload<'_>) -> Result<(), ComplexityError> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section.clone() {
                    for of in group?.into_types() {
                        let signature = match of.composite_type.inner {
                            CompositeInnerType::Func(of) => {
                                SignatureArity { params: of.params().len(), results: of.results().len() }
                            }
                            _ => SignatureArity::default(),
                        };
                        at_most("values in one function type", signature.values(), limits::SIGNATURE_VALUES)?;
                        self.widest = self.widest.max(signature.values());
                        self.types.push(signature);
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    if let TypeRef::Func(of) | TypeRef::FuncExact(of) = import?.ty {
                        self.functions.push(self.signature(of));
                        self.bodies += 1;
                    }
                }
            }
            Payload::FunctionSection(section) => {
                for of in section.clone() {
                    self.functions.push(self.signature(of?));
                }
            }
            Payload::CodeSectionEntry(body) => {
                at_most("bytes in one function", body.range().len(), limits::FUNCTION_BYTES)?;
                let own = self.functions.get(self.bodies).copied().unwrap_or_default();
                self.bodies += 1;
                let mut locals = own.params;
                for declared in body.get_locals_reader()? {
                    locals = locals.saturating_add(declared?.0 as usize);
                }
                at_most("locals in one function", locals, limits::FUNCTION_LOCALS)?;
                if may_be_deep(body.as_bytes(), locals) {
                    check_blocks(body, locals)?;
                }
                // No instruction of one byte moves more values than the widest type has, so most functions need no
                // closer look.
                if body.range().len().saturating_mul(self.widest.max(1)) > limits::FUNCTION_VALUES {
                    at_most("values moved by one function", self.values_moved(body, own)?, limits::FUNCTION_VALUES)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn signature(&self, index: u32) -> SignatureArity {
        self.types.get(index as usize).copied().unwrap_or_default()
    }

    /// Returns the number of values that the blocks, branches and calls of a function take and return. Each occurrence
    /// counts, and so does each target of a branch, since a compiler keeps all of them at once.
    fn values_moved(&self, body: &FunctionBody<'_>, own: SignatureArity) -> Result<usize, BinaryReaderError> {
        // The number of values that a branch to each open block carries, the outermost first.
        let mut labels = vec![own.results];
        let mut moved = 0_usize;
        let block = |of: BlockType| match of {
            BlockType::Empty => SignatureArity::default(),
            BlockType::Type(_) => SignatureArity { params: 0, results: 1 },
            BlockType::FuncType(index) => self.signature(index),
        };
        let to = |labels: &[usize], depth: u32| labels.iter().nth_back(depth as usize).copied().unwrap_or_default();
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() && moved <= limits::FUNCTION_VALUES {
            moved += match operators.read()? {
                Operator::Block { blockty } | Operator::If { blockty } => {
                    labels.push(block(blockty).results);
                    block(blockty).values()
                }
                Operator::Loop { blockty } => {
                    labels.push(block(blockty).params);
                    block(blockty).values()
                }
                Operator::TryTable { try_table } => {
                    labels.push(block(try_table.ty).results);
                    block(try_table.ty).values()
                }
                Operator::End => labels.pop().unwrap_or_default(),
                Operator::Br { relative_depth }
                | Operator::BrIf { relative_depth }
                | Operator::BrOnNull { relative_depth }
                | Operator::BrOnNonNull { relative_depth } => to(&labels, relative_depth),
                Operator::BrTable { targets } => {
                    let mut carried = to(&labels, targets.default());
                    for target in targets.targets() {
                        carried += to(&labels, target?);
                    }
                    carried
                }
                Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                    self.functions.get(function_index as usize).map_or(0, |of| of.values())
                }
                Operator::CallIndirect { type_index, .. }
                | Operator::ReturnCallIndirect { type_index, .. }
                | Operator::CallRef { type_index }
                | Operator::ReturnCallRef { type_index } => self.signature(type_index).values(),
                Operator::Return => own.results,
                _ => 0,
            };
        }
        Ok(moved)
    }
}

/// Returns `true` if a function may have too many blocks or loops. Counts opcode bytes, so most functions need no pass
/// over their instructions.
fn may_be_deep(bytes: &[u8], locals: usize) -> bool {
    const BLOCK: u8 = 0x02;
    const LOOP: u8 = 0x03;
    const IF: u8 = 0x04;
    const TRY_TABLE: u8 = 0x1f;
    // Each block has an opcode, a type and an end: a short function has no room for too many.
    let room = bytes.len() / 3;
    if room <= limits::FUNCTION_LOOP_DEPTH && room.saturating_mul(locals) <= limits::FUNCTION_NESTED_LOOP_LOCALS {
        return false;
    }
    let loops = memchr::memchr_iter(LOOP, bytes).count();
    let blocks = memchr::memchr3_iter(BLOCK, LOOP, IF, bytes).count() + memchr::memchr_iter(TRY_TABLE, bytes).count();
    loops > limits::FUNCTION_LOOP_DEPTH
        || loops.saturating_mul(locals) > limits::FUNCTION_NESTED_LOOP_LOCALS
        || blocks > limits::FUNCTION_BLOCK_DEPTH
        || blocks.saturating_mul(locals) > limits::FUNCTION_BLOCK_LOCALS
}

/// Refuses a function with too many blocks or loops, nested or in relation to its locals.
fn check_blocks(body: &FunctionBody<'_>, locals: usize) -> Result<(), ComplexityError> {
    // For each open block, the outermost first: `true` if it is a loop.
    let mut open = Vec::new();
    let (mut blocks, mut loops, mut depth) = (0_usize, 0_usize, 0_usize);
    let of_locals = |count: usize| count.saturating_mul(locals);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        match operators.read()? {
            Operator::Loop { .. } => {
                open.push(true);
                loops += 1;
                depth += 1;
                at_most("nested loops in one function", depth, limits::FUNCTION_LOOP_DEPTH)?;
                let most = limits::FUNCTION_NESTED_LOOP_LOCALS;
                at_most("nested loops times locals in one function", of_locals(depth), most)?;
                at_most("loops times locals in one function", of_locals(loops), limits::FUNCTION_LOOP_LOCALS)?;
            }
            Operator::Block { .. } | Operator::If { .. } | Operator::TryTable { .. } => open.push(false),
            Operator::End => {
                depth -= usize::from(open.pop() == Some(true));
                continue;
            }
            _ => continue,
        }
        blocks += 1;
        at_most("nested blocks in one function", open.len(), limits::FUNCTION_BLOCK_DEPTH)?;
        at_most("blocks times locals in one function", of_locals(blocks), limits::FUNCTION_BLOCK_LOCALS)?;
    }
    Ok(())
}

impl SignatureArity {
    fn values(self) -> usize {
        self.params + self.results
    }
}

fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), ComponentError> {
    if count <= most { Ok(()) } else { Err(ComponentError::TooMuchWork { what, count, most }) }
}

#[cfg(test)]
mod tests;
