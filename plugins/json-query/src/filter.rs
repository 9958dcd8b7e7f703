//! A compiled jq filter.

use jaq_core::{
    Compiler, Ctx, Cv, ValXs, Vars,
    compile::Undefined,
    data::JustLut,
    load::{self, Arena, File, Loader},
    native, unwrap_valr,
};
use jaq_json::Val;
use shelly_plugin::Error;

use crate::wrong;

/// The maximum size of a filter in bytes.
const MAX_FILTER: usize = 16 * 1024;

/// The maximum depth of nested brackets in a filter: its parser is recursive.
const MAX_DEPTH: usize = 100;

/// The library functions that access the outside world or end the program, with the number of their arguments. They are
/// replaced by functions that fail.
const OUTSIDE: [(&str, usize); 5] = [("env", 0), ("now", 0), ("halt", 1), ("localtime", 0), ("strflocaltime", 1)];

type Data = JustLut<Val>;

pub(crate) struct Filter(jaq_core::compile::Filter<jaq_core::Native<Data>>);

impl Filter {
    pub(crate) fn new(code: &str) -> Result<Filter, Error> {
        check(code)?;
        let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let funs = funs.filter(|(name, ..)| OUTSIDE.iter().all(|(outside, _)| outside != name));
        let refused = OUTSIDE.map(|(name, arguments)| native::run::<Data>((name, native::v(arguments), refuse)));
        let funs = funs.chain(refused);
        let arena = Arena::default();
        let modules = Loader::new(defs).load(&arena, File { code, path: () }).map_err(|errors| {
            wrong("filter", errors.iter().map(|(_, error)| not_read(error, code)).collect::<String>())
        })?;
        let filter = Compiler::default().with_funs(funs).compile(modules).map_err(|errors| {
            let first = errors.into_iter().flat_map(|(_, errors)| errors).next();
            wrong(
                "filter",
                first.map_or_else(|| "the filter cannot be compiled".to_owned(), |(name, what)| unknown(name, &what)),
            )
        })?;
        Ok(Filter(filter))
    }

    /// Calls `each` with every result for this input.
    pub(crate) fn run(&self, input: Val, mut each: impl FnMut(&Val) -> Result<(), Error>) -> Result<(), Error> {
        let ctx = Ctx::<Data>::new(&self.0.lut, Vars::new([]));
        for result in self.0.id.run((ctx, input)).map(unwrap_valr) {
            each(&result.map_err(|error| wrong("filter", clip(&error.to_string(), 500)))?)?;
        }
        Ok(())
    }
}

fn refuse(_: Cv<'_, Data>) -> ValXs<'_, Val> {
    let cause = "the time, the environment and the end of the program are not available here";
    native::bome(Err(jaq_core::Error::str(cause)))
}

fn check(code: &str) -> Result<(), Error> {
    if code.len() > MAX_FILTER {
        return Err(Error::TooLarge(format!("`filter` has {} bytes, the maximum is {MAX_FILTER}", code.len())));
    }
    let mut depth = 0_usize;
    for byte in code.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Error::TooLarge(format!("`filter` has more than {MAX_DEPTH} nested brackets")));
        }
    }
    Ok(())
}

/// Describes the error of a text that is not a filter.
fn not_read(error: &load::Error<&str>, code: &str) -> String {
    match error {
        load::Error::Io(errors) => {
            let names: Vec<_> = errors.iter().map(|(name, _)| clip(name, 60)).collect();
            format!("modules are not supported: `{}`", names.join("`, `"))
        }
        load::Error::Lex(errors) => {
            errors.first().map_or_else(String::new, |(expected, found)| at(expected.as_str(), found, code))
        }
        load::Error::Parse(errors) => {
            errors.first().map_or_else(String::new, |(expected, found)| at(expected.as_str(), found, code))
        }
    }
}

/// Describes a syntax error; `found` is a slice of `code`.
fn at(expected: &str, found: &str, code: &str) -> String {
    let offset = (found.as_ptr() as usize).checked_sub(code.as_ptr() as usize).filter(|offset| *offset <= code.len());
    match (found.is_empty(), offset) {
        (true, _) => format!("expected {expected} at the end"),
        (false, Some(offset)) => {
            format!("expected {expected} at byte {offset}: `{}`", clip(found, 40))
        }
        (false, None) => format!("expected {expected}, found `{}`", clip(found, 40)),
    }
}

fn unknown(name: &str, what: &Undefined) -> String {
    match what {
        Undefined::Filter(arity) => format!("unknown filter `{}/{arity}`", clip(name, 60)),
        what => format!("unknown {} `{}`", what.as_str(), clip(name, 60)),
    }
}

/// Returns the part of foreign text that an error repeats.
fn clip(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}
