//! The types of a component's functions, read from its binary, as far as their values can be JSON.

use std::{collections::HashMap, sync::Arc};

use wasmparser::{
    PrimitiveValType,
    component_types::{
        AliasableResourceId, ComponentAnyTypeId, ComponentDefinedType, ComponentDefinedTypeId, ComponentValType,
        ResourceId,
    },
    types::TypesRef,
};

use super::docs::TypeDocs;
use shelly_core::limits;

/// A type, and its name in the component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitType {
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// The doc comments of its WIT, if known.
    pub docs: Option<Arc<TypeDocs>>,
    /// The structure of the type.
    pub form: WitTypeKind,
}

/// The structure of a type. Its depth is at most [`limits::VALUE_DEPTH`]. A stream or a future carries numbers, `bool`, `char`
/// or `string`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the types of WIT")]
pub enum WitTypeKind {
    Bool,
    Int(WitInt),
    F32,
    F64,
    Char,
    String,
    List(Box<WitType>),
    Map { key: Box<WitType>, value: Box<WitType> },
    Tuple(Vec<WitType>),
    Record(Vec<WitField>),
    Variant(Vec<WitCase>),
    Enum(Vec<String>),
    Flags(Vec<String>),
    Option(Box<WitType>),
    Result { ok: Option<Box<WitType>>, error: Option<Box<WitType>> },
    Stream(Box<WitType>),
    Future(Box<WitType>),
    Own(Arc<str>),
    Borrow(Arc<str>),
}

/// An integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the types of WIT")]
pub enum WitInt {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

/// A field of a record, or a parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitField {
    /// The name of the field or parameter.
    pub name: String,
    /// The type of the field or parameter.
    pub shape: WitType,
}

/// A case of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitCase {
    /// The name of the case.
    pub name: String,
    /// The type of its payload, if it has one.
    pub payload: Option<WitType>,
}

impl WitInt {
    /// Returns the name of the type, and the least and the largest number that it holds.
    pub fn facts(self) -> (&'static str, i128, i128) {
        match self {
            Self::U8 => ("u8", 0, u8::MAX.into()),
            Self::S8 => ("s8", i8::MIN.into(), i8::MAX.into()),
            Self::U16 => ("u16", 0, u16::MAX.into()),
            Self::S16 => ("s16", i16::MIN.into(), i16::MAX.into()),
            Self::U32 => ("u32", 0, u32::MAX.into()),
            Self::S32 => ("s32", i32::MIN.into(), i32::MAX.into()),
            Self::U64 => ("u64", 0, u64::MAX.into()),
            Self::S64 => ("s64", i64::MIN.into(), i64::MAX.into()),
        }
    }

    /// Returns `true` if the type holds numbers that many readers of JSON would round.
    pub fn is_large(self) -> bool {
        matches!(self, Self::U64 | Self::S64)
    }
}

impl WitType {
    /// Creates a type without a name.
    pub fn of(form: WitTypeKind) -> Self {
        Self { name: None, docs: None, form }
    }

    /// Returns `true` if the type is `list<u8>` or `stream<u8>`.
    pub fn is_bytes(&self) -> bool {
        match &self.form {
            WitTypeKind::List(element) | WitTypeKind::Stream(element) => element.form == WitTypeKind::Int(WitInt::U8),
            _ => false,
        }
    }

    /// Returns `true` for numbers, `bool`, `char` and `string`, which the engine passes in streams and futures.
    fn is_plain(&self) -> bool {
        matches!(
            self.form,
            WitTypeKind::Bool
                | WitTypeKind::Int(_)
                | WitTypeKind::F32
                | WitTypeKind::F64
                | WitTypeKind::Char
                | WitTypeKind::String
        )
    }

    /// Returns `true` if a value may be left out, because the type is an option.
    pub fn is_option(&self) -> bool {
        matches!(self.form, WitTypeKind::Option(_))
    }

    /// Returns `true` if the type is one that WIT allows for the keys of maps.
    fn is_map_key(&self) -> bool {
        matches!(self.form, WitTypeKind::Bool | WitTypeKind::Int(_) | WitTypeKind::Char | WitTypeKind::String)
    }

    /// Returns `true` if a value can contain handles that its receiver owns.
    pub fn holds_own(&self) -> bool {
        let mut holds = false;
        self.each(&mut |shape| holds |= matches!(shape.form, WitTypeKind::Own(_)));
        holds
    }

    /// Returns `true` if a value can contain a stream or a future.
    pub fn holds_stream(&self) -> bool {
        let mut holds = false;
        self.each(&mut |shape| holds |= matches!(shape.form, WitTypeKind::Stream(_) | WitTypeKind::Future(_)));
        holds
    }

    /// Visits the resources of which each value contains a handle: not those in lists or options, which may be empty.
    pub fn each_needed_handle<'a>(&'a self, see: &mut impl FnMut(&'a Arc<str>)) {
        match &self.form {
            WitTypeKind::Own(resource) | WitTypeKind::Borrow(resource) => see(resource),
            WitTypeKind::Tuple(parts) => parts.iter().for_each(|part| part.each_needed_handle(see)),
            WitTypeKind::Record(fields) => fields.iter().for_each(|field| field.shape.each_needed_handle(see)),
            _ => {}
        }
    }

    /// Visits all types in it, itself first.
    pub fn each<'a>(&'a self, see: &mut impl FnMut(&'a WitType)) {
        see(self);
        match &self.form {
            WitTypeKind::List(inner)
            | WitTypeKind::Option(inner)
            | WitTypeKind::Stream(inner)
            | WitTypeKind::Future(inner) => inner.each(see),
            WitTypeKind::Map { key, value } => {
                key.each(see);
                value.each(see);
            }
            WitTypeKind::Tuple(parts) => parts.iter().for_each(|part| part.each(see)),
            WitTypeKind::Record(fields) => fields.iter().for_each(|field| field.shape.each(see)),
            WitTypeKind::Variant(cases) => {
                cases.iter().flat_map(|case| &case.payload).for_each(|payload| payload.each(see))
            }
            WitTypeKind::Result { ok, error } => ok.iter().chain(error).for_each(|payload| payload.each(see)),
            _ => {}
        }
    }
}

/// The names that a component gives its types.
#[derive(Default)]
pub struct WitTypeNames {
    types: HashMap<ComponentDefinedTypeId, TypeName>,
    /// The resources that the component defines. A handle of any other resource cannot be passed to it.
    resources: HashMap<ResourceId, Arc<str>>,
    imported: HashMap<ResourceId, Arc<str>>,
}

/// The name of a type, and its doc comments.
#[derive(Clone)]
struct TypeName {
    name: Arc<str>,
    docs: Option<Arc<TypeDocs>>,
}

impl WitTypeNames {
    /// Records a type that is imported or exported under this name, with its comments.
    pub fn add(&mut self, name: &str, is_imported: bool, created: ComponentAnyTypeId, docs: Option<&Arc<TypeDocs>>) {
        match created {
            ComponentAnyTypeId::Defined(id) => {
                self.types.entry(id).or_insert_with(|| TypeName { name: name.into(), docs: docs.cloned() });
            }
            ComponentAnyTypeId::Resource(id) if is_imported => {
                self.imported.entry(id.resource()).or_insert_with(|| name.into());
            }
            ComponentAnyTypeId::Resource(id) => {
                let id = id.resource();
                if !self.imported.contains_key(&id) && !self.resources.contains_key(&id) {
                    self.resources.insert(id, self.unique(name));
                }
            }
            _ => {}
        }
    }

    /// Returns a name that no other resource has: two interfaces may each have a `file`.
    fn unique(&self, name: &str) -> Arc<str> {
        let is_taken = |name: &str| self.resources.values().any(|there| **there == *name);
        let further = (2..).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.to_owned()).chain(further).find(|name| !is_taken(name));
        free.unwrap_or_default().into()
    }

    /// Returns the name of a resource that the component defines.
    fn resource(&self, id: ResourceId) -> Option<&Arc<str>> {
        self.resources.get(&id)
    }
}

/// Reads the types of one function.
pub struct WitTypeReader<'a> {
    types: TypesRef<'a>,
    names: &'a WitTypeNames,
    /// The number of types that may still be read.
    left: usize,
}

impl<'a> WitTypeReader<'a> {
    pub fn new(types: TypesRef<'a>, names: &'a WitTypeNames) -> Self {
        Self { types, names, left: limits::VALUE_TYPES }
    }

    /// Reads the type of a value.
    ///
    /// # Errors
    ///
    /// The reason why the values of the type cannot be JSON.
    pub fn shape(&mut self, of: &ComponentValType) -> Result<WitType, String> {
        self.read(of, 0)
    }

    fn read(&mut self, of: &ComponentValType, depth: usize) -> Result<WitType, String> {
        if depth >= limits::VALUE_DEPTH {
            return Err(format!("its types are nested more than {} deep", limits::VALUE_DEPTH));
        }
        let most = limits::VALUE_TYPES;
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("the function has more than {most} types"))?;
        match of {
            ComponentValType::Primitive(primitive) => primitive_form(*primitive).map(WitType::of),
            ComponentValType::Type(id) => {
                let (name, docs) = self.named(*id);
                let defined = self.types.get(*id).ok_or("a type is not defined")?;
                Ok(WitType { name, docs, form: self.form(defined, depth + 1)? })
            }
        }
    }

    /// Returns the name of a type, or of the type that it is an alias of, and the first doc comments along the aliases.
    fn named(&self, id: ComponentDefinedTypeId) -> (Option<Arc<str>>, Option<Arc<TypeDocs>>) {
        let chain = std::iter::successors(Some(id), |id| self.types.peel_alias(*id));
        let names: Vec<_> = chain.filter_map(|id| self.names.types.get(&id)).collect();
        let docs = names.iter().find_map(|name| name.docs.clone());
        (names.first().map(|first| Arc::clone(&first.name)), docs)
    }

    fn form(&mut self, defined: &ComponentDefinedType, depth: usize) -> Result<WitTypeKind, String> {
        let names = |names: &mut dyn Iterator<Item = &wasmparser::names::KebabString>| -> Result<Vec<String>, String> {
            let names: Vec<_> = names.map(|name| name.as_str().to_owned()).collect();
            let most = limits::VALUE_TYPES;
            if names.len() > most { Err(format!("a type has more than {most} names")) } else { Ok(names) }
        };
        let some = |reader: &mut Self, payload: &Option<ComponentValType>| -> Result<Option<Box<WitType>>, String> {
            payload.as_ref().map(|payload| reader.read(payload, depth).map(Box::new)).transpose()
        };
        Ok(match defined {
            ComponentDefinedType::Primitive(primitive) => primitive_form(*primitive)?,
            ComponentDefinedType::Record(record) => {
                let field = |(name, of): (&wasmparser::names::KebabString, &ComponentValType)| {
                    Ok(WitField { name: name.as_str().into(), shape: self.read(of, depth)? })
                };
                WitTypeKind::Record(record.fields.iter().map(field).collect::<Result<_, String>>()?)
            }
            ComponentDefinedType::Variant(variant) => {
                let mut cases = Vec::new();
                for (name, case) in &variant.cases {
                    self.left = self.left.checked_sub(1).ok_or("a variant has too many cases")?;
                    let payload = some(self, &case.ty)?.map(|payload| *payload);
                    cases.push(WitCase { name: name.as_str().into(), payload });
                }
                WitTypeKind::Variant(cases)
            }
            ComponentDefinedType::List { element, .. } => WitTypeKind::List(Box::new(self.read(element, depth)?)),
            ComponentDefinedType::Tuple(tuple) => {
                WitTypeKind::Tuple(tuple.types.iter().map(|part| self.read(part, depth)).collect::<Result<_, _>>()?)
            }
            ComponentDefinedType::Flags(flags) => WitTypeKind::Flags(names(&mut flags.iter())?),
            ComponentDefinedType::Enum(cases) => WitTypeKind::Enum(names(&mut cases.iter())?),
            ComponentDefinedType::Option { ty, .. } => WitTypeKind::Option(Box::new(self.read(ty, depth)?)),
            ComponentDefinedType::Result { ok, err, .. } => {
                WitTypeKind::Result { ok: some(self, ok)?, error: some(self, err)? }
            }
            ComponentDefinedType::Own(resource) => WitTypeKind::Own(self.resource(*resource)?),
            ComponentDefinedType::Borrow(resource) => WitTypeKind::Borrow(self.resource(*resource)?),
            ComponentDefinedType::Map { key, value, .. } => {
                let key = self.read(key, depth)?;
                // The validator accepts keys of any type.
                if !key.is_map_key() {
                    return Err("the keys of a `map` are neither integers nor `bool`, `char` or `string`".into());
                }
                WitTypeKind::Map { key: Box::new(key), value: Box::new(self.read(value, depth)?) }
            }
            ComponentDefinedType::FixedLengthList { .. } => {
                return Err("a list of fixed length is not supported by this host".into());
            }
            ComponentDefinedType::Future { ty, .. } => {
                WitTypeKind::Future(self.plain(ty.as_ref(), "the value of a `future`", depth)?)
            }
            ComponentDefinedType::Stream { ty, .. } => {
                WitTypeKind::Stream(self.plain(ty.as_ref(), "the elements of a `stream`", depth)?)
            }
        })
    }

    /// Reads the type of what a stream or a future carries.
    fn plain(&mut self, ty: Option<&ComponentValType>, what: &str, depth: usize) -> Result<Box<WitType>, String> {
        let carried = ty.map(|ty| self.read(ty, depth)).transpose()?;
        let plain = carried.filter(WitType::is_plain).map(Box::new);
        plain.ok_or_else(|| format!("the engine passes {what} only as a number, `bool`, `char` or `string`"))
    }

    fn resource(&self, id: AliasableResourceId) -> Result<Arc<str>, String> {
        self.names.resource(id.resource()).cloned().ok_or_else(|| match self.names.imported.get(&id.resource()) {
            Some(name) => format!(
                "the function uses a handle of `{name}`, which the component imports, so no caller can pass one"
            ),
            None => "the function uses a handle of a resource that the component does not export".into(),
        })
    }
}

fn primitive_form(primitive: PrimitiveValType) -> Result<WitTypeKind, String> {
    Ok(match primitive {
        PrimitiveValType::Bool => WitTypeKind::Bool,
        PrimitiveValType::S8 => WitTypeKind::Int(WitInt::S8),
        PrimitiveValType::U8 => WitTypeKind::Int(WitInt::U8),
        PrimitiveValType::S16 => WitTypeKind::Int(WitInt::S16),
        PrimitiveValType::U16 => WitTypeKind::Int(WitInt::U16),
        PrimitiveValType::S32 => WitTypeKind::Int(WitInt::S32),
        PrimitiveValType::U32 => WitTypeKind::Int(WitInt::U32),
        PrimitiveValType::S64 => WitTypeKind::Int(WitInt::S64),
        PrimitiveValType::U64 => WitTypeKind::Int(WitInt::U64),
        PrimitiveValType::F32 => WitTypeKind::F32,
        PrimitiveValType::F64 => WitTypeKind::F64,
        PrimitiveValType::Char => WitTypeKind::Char,
        PrimitiveValType::String => WitTypeKind::String,
        PrimitiveValType::ErrorContext => return Err("an `error-context` has no JSON form".into()),
    })
}
