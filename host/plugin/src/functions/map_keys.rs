//! The keys of maps.

use std::borrow::Cow;

use wasmtime::component::Val;

/// Returns the text of a key, by which it differs from all other keys of its type; `None` for a value that is no key.
pub fn key_text(key: &Val) -> Option<Cow<'_, str>> {
    Some(match key {
        Val::Bool(it) => it.to_string().into(),
        Val::U8(it) => it.to_string().into(),
        Val::S8(it) => it.to_string().into(),
        Val::U16(it) => it.to_string().into(),
        Val::S16(it) => it.to_string().into(),
        Val::U32(it) => it.to_string().into(),
        Val::S32(it) => it.to_string().into(),
        Val::U64(it) => it.to_string().into(),
        Val::S64(it) => it.to_string().into(),
        Val::Char(it) => it.to_string().into(),
        Val::String(it) => it.as_str().into(),
        _ => return None,
    })
}
