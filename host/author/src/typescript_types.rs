//! Type declarations of a world for TypeScript, as componentize-js maps values.

use std::fmt::Write;

use wit_parser::{
    Function, FunctionKind, Handle, IndexMap, InterfaceId, Resolve, Type, TypeDef, TypeDefKind, TypeId, TypeOwner,
    WorldItem, WorldKey,
};

use crate::project_wit::ProjectWit;

/// The file of a project that holds the declarations.
pub const TYPES_FILE: &str = "types/plugin.d.ts";

/// Words that no function or parameter can be called.
const RESERVED: &[&str] = &[
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Returns the declarations of all that a world imports and exports: a module for each interface, and one for the world's
/// own types. The functions of an export are the interface `Guest` of its module.
pub fn typescript_types(wit: &ProjectWit) -> String {
    let resolve = &wit.resolve;
    let mut text = String::from("// Written from wit/ by `shelly-host plugin build`.\n");
    let world = wit.world();
    let (mut done, mut of_world, mut guest): (Vec<InterfaceId>, String, Vec<&Function>) = Default::default();
    let is_among = |items: &IndexMap<WorldKey, WorldItem>, wanted: &InterfaceId| {
        items.values().any(|item| matches!(item, WorldItem::Interface { id, .. } if id == wanted))
    };
    let imports = world.imports.iter().map(|(key, item)| (key, item, false));
    for (key, item, is_export) in imports.chain(world.exports.iter().map(|(key, item)| (key, item, true))) {
        match item {
            WorldItem::Interface { id, .. } if !done.contains(id) => {
                done.push(*id);
                let (imported, exported) = (is_among(&world.imports, id), is_among(&world.exports, id));
                text += &interface(resolve, *id, &resolve.name_world_key(key), imported, exported);
            }
            WorldItem::Interface { .. } => {}
            WorldItem::Type { id, .. } => {
                of_world += &type_declaration(resolve, *id, resolve.types[*id].name.as_deref())
            }
            WorldItem::Function(function) if is_export => guest.push(function),
            WorldItem::Function(function) => {
                let signature = signature(resolve, function);
                let body = format!("{}export default function{signature};\n", comment(&function.docs));
                text += &module_of(&resolve.name_world_key(key), &body);
            }
        }
    }
    if !guest.is_empty() {
        of_world += &guest_interface(resolve, &guest);
    }
    if !of_world.is_empty() {
        let name = world.package.map_or_else(|| world.name.clone(), |package| resolve.id_of_name(package, &world.name));
        text += &module_of(&name, &of_world);
    }
    text
}

fn interface(resolve: &Resolve, id: InterfaceId, name: &str, is_imported: bool, is_exported: bool) -> String {
    let interface = &resolve.interfaces[id];
    let mut body = String::new();
    for (name, id) in &interface.types {
        body += &type_declaration(resolve, *id, Some(name));
    }
    let functions: Vec<_> =
        interface.functions.values().filter(|function| function.kind.resource().is_none()).collect();
    if is_imported {
        for function in &functions {
            let (name, signature) = (camel(&function.name), signature(resolve, function));
            body += &comment(&function.docs);
            // Writing to a string cannot fail.
            let _ = match RESERVED.contains(&name.as_str()) {
                true => writeln!(body, "function ${name}{signature};\nexport {{ ${name} as {name} }};"),
                false => writeln!(body, "export function {name}{signature};"),
            };
        }
    }
    if is_exported {
        body += &guest_interface(resolve, &functions);
    }
    module_of(name, &body)
}

/// Returns the interface that an export implements.
fn guest_interface(resolve: &Resolve, functions: &[&Function]) -> String {
    let mut text = String::from("/** The functions that the plugin exports. */\nexport interface Guest {\n");
    for function in functions {
        text += &indented(&format!(
            "{}{}{};\n",
            comment(&function.docs),
            camel(&function.name),
            signature(resolve, function)
        ));
    }
    text + "}\n"
}

fn module_of(name: &str, body: &str) -> String {
    // An empty export makes a module of a file without any.
    let body = if body.is_empty() { "export {};\n" } else { body };
    format!("\ndeclare module \"{name}\" {{\n{}}}\n", indented(body))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".into() } else { format!("  {line}\n") }).collect()
}

fn comment(docs: &wit_parser::Docs) -> String {
    let Some(text) = docs.contents.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
        return String::new();
    };
    // The end of a comment must not stand in it.
    let text = text.replace("*/", "* /");
    match text.contains('\n') {
        true => format!(
            "/**\n{} */\n",
            text.lines().map(|line| format!(" * {line}").trim_end().to_owned() + "\n").collect::<String>()
        ),
        false => format!("/** {text} */\n"),
    }
}

fn type_declaration(resolve: &Resolve, id: TypeId, name: Option<&str>) -> String {
    let Some(name) = name.map(pascal) else { return String::new() };
    let definition = &resolve.types[id];
    let text = match &definition.kind {
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter().map(|field| {
                let (mark, of) = match option_of(resolve, &field.ty) {
                    Some(inside) => ("?", type_name(resolve, &inside)),
                    None => ("", type_name(resolve, &field.ty)),
                };
                indented(&format!("{}{}{mark}: {of};\n", comment(&field.docs), camel(&field.name)))
            });
            format!("export interface {name} {{\n{}}}\n", fields.collect::<String>())
        }
        TypeDefKind::Flags(flags) => {
            let fields = flags
                .flags
                .iter()
                .map(|flag| indented(&format!("{}{}?: boolean;\n", comment(&flag.docs), camel(&flag.name))));
            format!("export interface {name} {{\n{}}}\n", fields.collect::<String>())
        }
        TypeDefKind::Variant(variant) => {
            let cases = variant.cases.iter().map(|case| {
                let value = case.ty.as_ref().map_or(String::new(), |ty| format!("; val: {}", type_name(resolve, ty)));
                indented(&format!("{}| {{ tag: \"{}\"{value} }}\n", comment(&case.docs), case.name))
            });
            format!("export type {name} =\n{};\n", cases.collect::<String>().trim_end())
        }
        TypeDefKind::Enum(of) => {
            let cases: Vec<_> = of.cases.iter().map(|case| format!("\"{}\"", case.name)).collect();
            format!("export type {name} = {};\n", cases.join(" | "))
        }
        TypeDefKind::Resource => {
            let mut text = format!("export class {name} {{\n");
            let methods = match definition.owner {
                TypeOwner::Interface(owner) => {
                    resolve.interfaces[owner].functions.values().filter(|of| of.kind.resource() == Some(id)).collect()
                }
                _ => Vec::new(),
            };
            let is_constructor = |function: &&Function| matches!(function.kind, FunctionKind::Constructor(_));
            if !methods.iter().any(is_constructor) {
                text += "  private constructor();\n";
            }
            for method in methods {
                let before = match method.kind {
                    FunctionKind::Constructor(_) => {
                        text += &indented(&format!(
                            "{}constructor{};\n",
                            comment(&method.docs),
                            parameters(resolve, method, 0)
                        ));
                        continue;
                    }
                    FunctionKind::Static(_) | FunctionKind::AsyncStatic(_) => "static ",
                    _ => "",
                };
                let signature = signature(resolve, method);
                text +=
                    &indented(&format!("{}{before}{}{signature};\n", comment(&method.docs), camel(method.item_name())));
            }
            text + "}\n"
        }
        TypeDefKind::Type(Type::Id(of)) => format!("export type {name} = {};\n", named(resolve, *of, definition)),
        kind => format!("export type {name} = {};\n", kind_name(resolve, kind)),
    };
    comment(&definition.docs) + &text
}

/// Returns the name of a type that another definition stands for: within the same interface, or in another module.
fn named(resolve: &Resolve, of: TypeId, alias: &TypeDef) -> String {
    let there = &resolve.types[of];
    let name = pascal(there.name.as_deref().unwrap_or_default());
    match there.owner {
        TypeOwner::Interface(id) if there.owner != alias.owner => {
            format!("import(\"{}\").{name}", resolve.id_of(id).unwrap_or_default())
        }
        _ => name,
    }
}

fn signature(resolve: &Resolve, function: &Function) -> String {
    // The first parameter of a method is the object itself.
    let skipped = usize::from(matches!(function.kind, FunctionKind::Method(_) | FunctionKind::AsyncMethod(_)));
    // A function that returns a result returns the value, or throws the error.
    let result = match function.result.as_ref() {
        None => "void".into(),
        Some(ty) => match definition(resolve, ty) {
            Some(TypeDefKind::Result(result)) => result.ok.as_ref().map_or("void".into(), |ok| type_name(resolve, ok)),
            _ => type_name(resolve, ty),
        },
    };
    format!("{}: {result}", parameters(resolve, function, skipped))
}

fn parameters(resolve: &Resolve, function: &Function, skipped: usize) -> String {
    let parameters = function.params.iter().skip(skipped).map(|param| {
        let name = camel(&param.name);
        let name = if RESERVED.contains(&name.as_str()) { format!("_{name}") } else { name };
        format!("{name}: {}", type_name(resolve, &param.ty))
    });
    format!("({})", parameters.collect::<Vec<_>>().join(", "))
}

/// Returns the definition of a type that has no name of its own.
fn definition<'a>(resolve: &'a Resolve, ty: &Type) -> Option<&'a TypeDefKind> {
    match ty {
        Type::Id(id) => Some(&resolve.types[*id].kind),
        _ => None,
    }
}

/// Returns the type inside of an option; `None` for other types, and for an option of an option.
fn option_of(resolve: &Resolve, ty: &Type) -> Option<Type> {
    match definition(resolve, ty) {
        Some(TypeDefKind::Option(inside)) if !matches!(definition(resolve, inside), Some(TypeDefKind::Option(_))) => {
            Some(*inside)
        }
        _ => None,
    }
}

fn type_name(resolve: &Resolve, ty: &Type) -> String {
    match ty {
        Type::Bool => "boolean".into(),
        Type::U8 | Type::U16 | Type::U32 | Type::S8 | Type::S16 | Type::S32 | Type::F32 | Type::F64 => "number".into(),
        Type::U64 | Type::S64 => "bigint".into(),
        Type::Char | Type::String => "string".into(),
        Type::ErrorContext => "unknown".into(),
        Type::Id(id) => match &resolve.types[*id].name {
            Some(name) => pascal(name),
            None => kind_name(resolve, &resolve.types[*id].kind),
        },
    }
}

fn kind_name(resolve: &Resolve, kind: &TypeDefKind) -> String {
    let of = |ty: &Type| type_name(resolve, ty);
    match kind {
        TypeDefKind::Type(ty) => of(ty),
        TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id)) => of(&Type::Id(*id)),
        TypeDefKind::Tuple(tuple) => format!("[{}]", tuple.types.iter().map(of).collect::<Vec<_>>().join(", ")),
        TypeDefKind::Option(ty) if matches!(definition(resolve, ty), Some(TypeDefKind::Option(_))) => {
            format!("{{ tag: \"some\"; val: {} }} | {{ tag: \"none\" }}", of(ty))
        }
        TypeDefKind::Option(ty) => format!("{} | undefined", of(ty)),
        TypeDefKind::Result(result) => {
            let value = |ty: &Option<Type>| ty.as_ref().map_or("undefined".into(), of);
            format!("{{ tag: \"ok\"; val: {} }} | {{ tag: \"err\"; val: {} }}", value(&result.ok), value(&result.err))
        }
        TypeDefKind::List(ty) | TypeDefKind::FixedLengthList(ty, _) => list_name(resolve, ty),
        TypeDefKind::Map(key, value) => format!("Map<{}, {}>", of(key), of(value)),
        // The host takes none of these.
        _ => "unknown".into(),
    }
}

/// Returns the name of a list: one of numbers is an array of bytes or words.
fn list_name(resolve: &Resolve, of: &Type) -> String {
    let name = match of {
        Type::U8 => "Uint8Array",
        Type::S8 => "Int8Array",
        Type::U16 => "Uint16Array",
        Type::S16 => "Int16Array",
        Type::U32 => "Uint32Array",
        Type::S32 => "Int32Array",
        Type::U64 => "BigUint64Array",
        Type::S64 => "BigInt64Array",
        Type::F32 => "Float32Array",
        Type::F64 => "Float64Array",
        _ => return format!("Array<{}>", type_name(resolve, of)),
    };
    name.into()
}

/// Returns a name of WIT as TypeScript writes types: `tool-spec` is `ToolSpec`.
fn pascal(name: &str) -> String {
    let words = name.split('-').filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Returns a name of WIT as JavaScript writes functions and fields: `input-schema` is `inputSchema`.
fn camel(name: &str) -> String {
    let name = pascal(name);
    match name.chars().next() {
        Some(first) => first.to_lowercase().collect::<String>() + &name[first.len_utf8()..],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types_of(text: &str) -> String {
        let wit = ProjectWit::of_texts(&[("a.wit".into(), text.into())], None).unwrap();
        typescript_types(&wit)
    }

    #[test]
    fn values_have_the_types_of_componentize_js() {
        let types = types_of(
            "package a:b@0.1.0;\n\
             interface i {\n\
               /// A thing.\n\
               record thing { /// Its size.\n big-number: u64, name: option<string>, bytes: list<u8>, pairs: list<tuple<string, f32>> }\n\
               variant choice { none, some-text(string), of-thing(option<thing>) }\n\
               enum color { dark-red, green }\n\
               flags hints { read-only, closed }\n\
               resource body { constructor(size: u32); read: func(max: u32) -> result<list<u8>, choice>; make: static func() -> body; }\n\
               resource upload { send: func(); }\n\
               find: func(thing: thing, default: bool) -> result<option<color>, string>;\n\
               delete: func(hints: hints);\n\
             }\n\
             world w { import i; export i; record point { x: s32 } export run: func(p: point) -> result<_, string>; }",
        );
        for line in [
            "declare module \"a:b/i@0.1.0\" {",
            "  /** A thing. */\n  export interface Thing {\n    /** Its size. */\n    bigNumber: bigint;\n    name?: string;\n    bytes: Uint8Array;\n    pairs: Array<[string, number]>;",
            "  export type Choice =\n    | { tag: \"none\" }\n    | { tag: \"some-text\"; val: string }\n    | { tag: \"of-thing\"; val: Thing | undefined };",
            "  export type Color = \"dark-red\" | \"green\";",
            "    readOnly?: boolean;",
            "  export class Body {\n    constructor(size: number);\n    read(max: number): Uint8Array;\n    static make(): Body;",
            "  export class Upload {\n    private constructor();\n    send(): void;",
            "  export function find(thing: Thing, _default: boolean): Color | undefined;",
            "  function $delete(hints: Hints): void;\n  export { $delete as delete };",
            "  export interface Guest {\n    find(thing: Thing, _default: boolean): Color | undefined;\n    delete(hints: Hints): void;",
            "declare module \"a:b/w@0.1.0\" {\n  export interface Point {\n    x: number;",
            "    run(p: Point): void;",
        ] {
            assert!(types.contains(line), "{line}\nis not in\n{types}");
        }
    }

    #[test]
    fn types_of_another_interface_are_imported() {
        let types = types_of(
            "package a:b@0.1.0; interface t { record r { a: u8 } } interface i { use t.{r}; f: func() -> r; } world w { export i; }",
        );
        assert!(types.contains("export type R = import(\"a:b/t@0.1.0\").R;"), "{types}");
        assert!(types.contains("declare module \"a:b/t@0.1.0\" {"), "{types}");
    }
}
