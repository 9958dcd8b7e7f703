//! The declarations of a WIT package as text.

use wit_parser::{Function, FunctionKind, Handle, Interface, Resolve, Type, TypeDef, TypeDefKind, TypeId};

/// The widest signature on one line.
const WIDTH: usize = 100;

/// Returns a type as WIT writes it.
pub fn type_text(resolve: &Resolve, ty: &Type) -> String {
    let Type::Id(id) = ty else { return primitive(ty).to_owned() };
    let TypeDef { name, kind, .. } = &resolve.types[*id];
    name.clone().unwrap_or_else(|| form_text(resolve, kind))
}

/// Returns the form of a type that needs no name.
fn form_text(resolve: &Resolve, kind: &TypeDefKind) -> String {
    let text = |ty: &Type| type_text(resolve, ty);
    match kind {
        TypeDefKind::Option(of) => format!("option<{}>", text(of)),
        TypeDefKind::List(of) => format!("list<{}>", text(of)),
        TypeDefKind::FixedLengthList(of, length) => format!("list<{}, {length}>", text(of)),
        TypeDefKind::Map(key, value) => format!("map<{}, {}>", text(key), text(value)),
        TypeDefKind::Tuple(tuple) => format!("tuple<{}>", tuple.types.iter().map(text).collect::<Vec<_>>().join(", ")),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".to_owned(),
            (Some(ok), None) => format!("result<{}>", text(ok)),
            (ok, Some(err)) => format!("result<{}, {}>", ok.as_ref().map_or("_".to_owned(), text), text(err)),
        },
        TypeDefKind::Future(of) => of.as_ref().map_or("future".to_owned(), |of| format!("future<{}>", text(of))),
        TypeDefKind::Stream(of) => of.as_ref().map_or("stream".to_owned(), |of| format!("stream<{}>", text(of))),
        TypeDefKind::Handle(Handle::Own(of)) => text(&Type::Id(*of)),
        TypeDefKind::Handle(Handle::Borrow(of)) => format!("borrow<{}>", text(&Type::Id(*of))),
        TypeDefKind::Type(of) => text(of),
        kind => panic!("a type without a name cannot be a {}", kind.as_str()),
    }
}

fn primitive(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(_) => unreachable!("it has a name or a form"),
    }
}

/// Returns the types with names that this type contains, in order.
pub fn named_types(resolve: &Resolve, ty: &Type) -> Vec<TypeId> {
    let of = |types: &[&Type]| types.iter().flat_map(|ty| named_types(resolve, ty)).collect();
    let Type::Id(id) = ty else { return Vec::new() };
    let TypeDef { name, kind, .. } = &resolve.types[*id];
    if name.is_some() {
        return vec![*id];
    }
    match kind {
        TypeDefKind::Option(ty) | TypeDefKind::List(ty) | TypeDefKind::FixedLengthList(ty, _) => of(&[ty]),
        TypeDefKind::Type(ty) | TypeDefKind::Future(Some(ty)) | TypeDefKind::Stream(Some(ty)) => of(&[ty]),
        TypeDefKind::Map(key, value) => of(&[key, value]),
        TypeDefKind::Tuple(tuple) => of(&tuple.types.iter().collect::<Vec<_>>()),
        TypeDefKind::Result(result) => of(&result.ok.iter().chain(&result.err).collect::<Vec<_>>()),
        TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id)) => vec![*id],
        _ => Vec::new(),
    }
}

/// Returns the name of a function without its resource: `read` for `[method]body.read`.
pub fn function_name(function: &Function) -> &str {
    let name = function.name.rsplit_once(']').map_or(&*function.name, |(_, name)| name);
    match function.kind {
        FunctionKind::Constructor(_) => "constructor",
        _ => name.rsplit_once('.').map_or(name, |(_, name)| name),
    }
}

/// Returns the types with names that a function takes and returns, in order.
pub fn types_of_function(resolve: &Resolve, function: &Function) -> Vec<TypeId> {
    let parameters = parameters(function).iter().map(|parameter| &parameter.ty);
    parameters.chain(&function.result).flat_map(|ty| named_types(resolve, ty)).collect()
}

/// Returns the parameters as WIT writes them: without the resource whose method it is.
fn parameters(function: &Function) -> &[wit_parser::Param] {
    match function.kind {
        FunctionKind::Method(_) | FunctionKind::AsyncMethod(_) => &function.params[1..],
        _ => &function.params,
    }
}

/// Returns the signature of a function, on several lines if it is long.
pub fn signature(resolve: &Resolve, function: &Function) -> String {
    let (keyword, is_constructor) = match function.kind {
        FunctionKind::Freestanding | FunctionKind::Method(_) => ("func", false),
        FunctionKind::AsyncFreestanding | FunctionKind::AsyncMethod(_) => ("async func", false),
        FunctionKind::Static(_) => ("static func", false),
        FunctionKind::AsyncStatic(_) => ("static async func", false),
        FunctionKind::Constructor(_) => ("", true),
    };
    let parameters = parameters(function).iter();
    let parameters: Vec<_> =
        parameters.map(|parameter| format!("{}: {}", parameter.name, type_text(resolve, &parameter.ty))).collect();
    let name = function_name(function);
    let begin = if is_constructor { format!("{name}(") } else { format!("{name}: {keyword}(") };
    let result = match &function.result {
        Some(ty) if !is_constructor => format!(") -> {};", type_text(resolve, ty)),
        _ => ");".to_owned(),
    };
    let line = format!("{begin}{}{result}", parameters.join(", "));
    if line.len() <= WIDTH {
        return line;
    }
    let lines: String = parameters.iter().map(|parameter| format!("  {parameter},\n")).collect();
    format!("{begin}\n{lines}{result}")
}

/// Returns the functions of a resource, in order.
pub fn functions_of(interface: &Interface, resource: TypeId) -> Vec<&Function> {
    interface.functions.values().filter(|function| function.kind.resource() == Some(resource)).collect()
}

/// Returns the declaration of a type without its comments.
pub fn declaration(resolve: &Resolve, interface: &Interface, id: TypeId) -> String {
    let TypeDef { name, kind, .. } = &resolve.types[id];
    let name = name.as_deref().expect("a type of an interface has a name");
    let members: Vec<String> = match kind {
        TypeDefKind::Record(record) => {
            record.fields.iter().map(|field| format!("{}: {},", field.name, type_text(resolve, &field.ty))).collect()
        }
        TypeDefKind::Variant(variant) => {
            let case = |case: &wit_parser::Case| match &case.ty {
                Some(ty) => format!("{}({}),", case.name, type_text(resolve, ty)),
                None => format!("{},", case.name),
            };
            variant.cases.iter().map(case).collect()
        }
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| format!("{},", case.name)).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| format!("{},", flag.name)).collect(),
        TypeDefKind::Resource => {
            functions_of(interface, id).iter().map(|function| signature(resolve, function)).collect()
        }
        form => return format!("type {name} = {};", form_text(resolve, form)),
    };
    let members = members.join("\n").replace('\n', "\n  ");
    format!("{} {name} {{\n  {members}\n}}", kind.as_str())
}
