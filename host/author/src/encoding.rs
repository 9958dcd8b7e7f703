//! Components of core modules, as compilers of Rust, C and Go make them.

use std::borrow::Cow;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasm_encoder::{ComponentSection, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, decode, embed_component_metadata};
use wit_parser::PackageMetadata;

use crate::project_wit::ProjectWit;

/// The memory that the adapter between the two versions of WASI takes for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterMemory {
    /// From the module's own allocator.
    OfModule,
    /// New pages: the module's allocator cannot be called before its runtime has started.
    NewPages,
}

/// Returns `true` for the bytes of a component, and `false` for those of a core module and for all others.
pub fn is_component(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0asm\x0d\0\x01\0")
}

/// Makes a component of a core module. The module exports and imports functions as the canonical ABI says for `wit`; without
/// it the module itself must contain its world, as that of a Rust plugin does. A module for WASI's first version is joined
/// with the adapter to its second.
///
/// # Errors
///
/// The causes, from the outermost to the innermost, in one line.
pub fn component_of_module(module: &[u8], wit: Option<&ProjectWit>, memory: AdapterMemory) -> Result<Vec<u8>, String> {
    let mut module = Cow::Borrowed(module);
    if let Some(wit) = wit {
        let embedded = embed_component_metadata(module.to_mut(), &wit.resolve, wit.world, StringEncoding::UTF8);
        embedded.map_err(|error| format!("{error:#}"))?;
    }
    // An adapter that the module does not need is left out.
    let encoder = ComponentEncoder::default().validate(true).realloc_via_memory_grow(memory == AdapterMemory::NewPages);
    let encoder = encoder.module(&module);
    let encoder = encoder.and_then(|encoder| {
        encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
    });
    encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| format!("{error:#}"))
}

/// Adds the comments of the project's WIT to a component, for the descriptions of its functions. Leaves them out if WIT
/// tools could not read the component any more, because it lacks something that has a comment.
pub fn add_docs(component: &mut Vec<u8>, wit: &ProjectWit) {
    let (size, Some(docs)) = (component.len(), wit.docs()) else { return };
    let name = Cow::Borrowed(PackageMetadata::SECTION_NAME);
    CustomSection { name, data: docs.into() }.append_to_component(component);
    if decode(component).is_err() {
        component.truncate(size);
    }
}

#[cfg(test)]
mod tests {
    use wit_component::DecodedWasm;

    use super::*;

    const WORLD: &str = "package local:plugin; world plugin {\n\
                         /// Returns the sum.\n export add: func(a: u32, b: u32) -> u32; }";

    fn wit(text: &str) -> ProjectWit {
        ProjectWit::of_texts(&[("plugin.wit".into(), text.into())], None).unwrap()
    }

    fn module(text: &str) -> Vec<u8> {
        wat::parse_str(text).unwrap()
    }

    /// The names of the component's imports and exports.
    fn world_of(component: &[u8]) -> (Vec<String>, Vec<String>) {
        let DecodedWasm::Component(resolve, world) = decode(component).unwrap() else { panic!("a component") };
        let names = |items: Vec<_>| items.into_iter().map(|key| resolve.name_world_key(key)).collect();
        let world = &resolve.worlds[world];
        (names(world.imports.keys().collect()), names(world.exports.keys().collect()))
    }

    const ADD: &str = "(func (export \"add\") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))";

    #[test]
    fn module_without_wasi_becomes_a_component_without_it() {
        let core = module(&format!("(module {ADD})"));
        assert!(!is_component(&core));
        let component = component_of_module(&core, Some(&wit(WORLD)), AdapterMemory::OfModule).unwrap();
        assert!(is_component(&component));
        assert_eq!(world_of(&component), (vec![], vec!["add".to_owned()]));
    }

    #[test]
    fn module_for_wasi_is_joined_with_the_adapter() {
        let core = module(&format!(
            "(module (import \"wasi_snapshot_preview1\" \"random_get\" (func (param i32 i32) (result i32)))\
             (memory (export \"memory\") 1)\
             (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 1024)) {ADD})"
        ));
        for memory in [AdapterMemory::OfModule, AdapterMemory::NewPages] {
            let component = component_of_module(&core, Some(&wit(WORLD)), memory).unwrap();
            let (imports, exports) = world_of(&component);
            assert!(imports.iter().any(|import| import.starts_with("wasi:random/random@0.2.")), "{imports:?}");
            assert_eq!(exports, ["add"]);
        }
    }

    #[test]
    fn comments_of_the_world_are_in_the_component() {
        let core = module(&format!("(module {ADD})"));
        let wit = wit(WORLD);
        let mut component = component_of_module(&core, Some(&wit), AdapterMemory::OfModule).unwrap();
        let size = component.len();
        add_docs(&mut component, &wit);
        assert!(component.len() > size && component.windows(16).any(|part| part == b"Returns the sum."));
        assert_eq!(world_of(&component).1, ["add"], "it is a component as before");
        // A comment on a type that no function uses, so that the component does not have it.
        let unused = WORLD.replace("world plugin {", "world plugin {\n /// Unused.\n record r { a: u8 }");
        let mut plain = component_of_module(&core, Some(&wit), AdapterMemory::OfModule).unwrap();
        add_docs(&mut plain, &self::wit(&unused));
        assert_eq!(world_of(&plain).1, ["add"], "WIT tools read it");
    }

    #[test]
    fn module_that_does_not_fit_is_told_why() {
        let world = wit(WORLD);
        for (text, says) in [
            ("(module)", "failed to find export of function `add`"),
            (
                "(module (func (export \"add\") (param i32) (result i32) (local.get 0)))",
                "type mismatch for function `add`",
            ),
            (&format!("(module (import \"env\" \"puts\" (func (param i32))) {ADD})"), "`env`"),
            (&format!("(module (import \"a:b/c@1.0.0\" \"f\" (func)) {ADD})"), "`a:b/c@1.0.0`"),
        ] {
            let error = component_of_module(&module(text), Some(&world), AdapterMemory::OfModule).unwrap_err();
            assert!(error.contains(says), "{text}\n{error}");
        }
        let error = component_of_module(&module("(module)"), None, AdapterMemory::OfModule).unwrap();
        assert_eq!(world_of(&error), (vec![], vec![]), "a module without a world exports nothing");
    }
}
