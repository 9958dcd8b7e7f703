//! Import of files as tables in memory.

use std::io::{BufRead, BufReader, Read};

use graphitesql::{Connection, Value as Sql, exec::eval::Params};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use shelly_plugin::Error;

use crate::{
    PIECE,
    csv_file::{self, Delimiter, MAX_COLUMNS, names},
};

/// The maximum size of all files together, in bytes.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// The maximum number of tables of a query.
const MAX_TABLES: usize = 8;

/// The number of values of one insert.
const VALUES_PER_INSERT: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TableFile {
    /// The name of the table in the query.
    pub(crate) name: String,
    /// A file that ends in .csv, .tsv, .json (an array of objects) or .jsonl (an object a line).
    pub(crate) path: String,
    /// The separator of columns of CSV; detected from the first row if left out.
    pub(crate) delimiter: Option<Delimiter>,
}

/// The type of a file, by the extension of its name.
enum Kind {
    Csv,
    Json,
}

impl Kind {
    fn of(path: &str) -> Result<Kind, Error> {
        match path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "csv" | "tsv" | "txt" => Ok(Kind::Csv),
            "json" | "jsonl" | "ndjson" => Ok(Kind::Json),
            _ => Err(Error::Invalid(format!("`{path}` must end in .csv, .tsv, .txt, .json, .jsonl or .ndjson"))),
        }
    }
}

/// Creates a database in memory with these tables.
pub(crate) fn open<R: Read>(
    tables: &[TableFile],
    open: impl Fn(&str) -> Result<R, Error>,
) -> Result<Connection, Error> {
    if !(1..=MAX_TABLES).contains(&tables.len()) {
        return Err(Error::Invalid(format!("`tables` has {} tables; use 1 to {MAX_TABLES}", tables.len())));
    }
    let mut connection = Connection::open_memory().map_err(|cause| failed("a database in memory", &cause))?;
    let mut left = MAX_BYTES;
    for table in tables {
        let path = &table.path;
        let kind = Kind::of(path)?;
        let mut text = Vec::new();
        // Reading one byte more than allowed detects a file that is too large.
        let file = open(path)?.take(left + 1);
        let read = BufReader::with_capacity(PIECE, file).read_to_end(&mut text);
        read.map_err(|error| Error::unavailable(format!("`{path}` cannot be read: {error}")))?;
        left = left.checked_sub(text.len() as u64).ok_or_else(|| {
            Error::TooLarge(format!(
                "the files have more than {MAX_BYTES} bytes in total; `csv_read` reads longer ones"
            ))
        })?;
        match kind {
            Kind::Csv => import_csv(&mut connection, table, text.as_slice())?,
            Kind::Json => import_json(&mut connection, table, &text)?,
        }
    }
    Ok(connection)
}

fn import_csv(connection: &mut Connection, table: &TableFile, text: impl BufRead) -> Result<(), Error> {
    let mut file = csv_file::open(text, &table.path, table.delimiter)?;
    let mut cells: Vec<String> = Vec::new();
    while let Some(row) = file.next()? {
        cells.extend(row.iter().map(str::to_owned));
    }
    let width = file.columns().len();
    let types: Vec<Type> = (0..width)
        .map(|column| Type::of(cells.iter().skip(column).step_by(width.max(1)).map(String::as_str)))
        .collect();
    let mut rows = Rows::create(connection, &table.name, file.columns(), &types)?;
    let mut cells = cells.into_iter();
    while cells.len() > 0 {
        rows.push(types.iter().zip(&mut cells).map(|(kind, cell)| kind.read(cell)))?;
    }
    rows.finish()
}

/// Imports objects as rows. The keys of all objects become columns. Lists and objects within them become JSON, for
/// SQLite's functions.
fn import_json(connection: &mut Connection, table: &TableFile, text: &[u8]) -> Result<(), Error> {
    let path = &table.path;
    let wrong = |cause: &dyn std::fmt::Display| Error::Invalid(format!("`{path}`: {cause}"));
    let mut objects = Vec::new();
    for value in serde_json::Deserializer::from_slice(text).into_iter::<Value>() {
        match value.map_err(|cause| wrong(&cause))? {
            Value::Array(list) => objects.extend(list),
            value => objects.push(value),
        }
    }
    let mut keys: Vec<String> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for object in &objects {
        let Value::Object(object) = object else {
            return Err(wrong(&"expected objects: `[{…}, {…}]`, or one per line"));
        };
        keys.extend(object.keys().filter(|key| known.insert((*key).clone())).cloned());
        if keys.len() > MAX_COLUMNS {
            return Err(Error::TooLarge(format!("`{path}` has more than {MAX_COLUMNS} keys, which become columns")));
        }
    }
    let columns = names(keys.iter().map(String::as_str));
    let mut rows = Rows::create(connection, &table.name, &columns, &vec![Type::Any; columns.len()])?;
    for object in &objects {
        rows.push(keys.iter().map(|key| object.get(key).map_or(Sql::Null, sql)))?;
    }
    rows.finish()
}

fn sql(value: &Value) -> Sql {
    match value {
        Value::Null => Sql::Null,
        Value::Bool(truth) => Sql::Integer((*truth).into()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Sql::Integer(number),
            (None, Some(number)) => Sql::Real(number),
            (None, None) => Sql::Null,
        },
        Value::String(text) => Sql::Text(text.as_str().into()),
        value => Sql::Text(value.to_string().into()),
    }
}

/// The type of a CSV column, as far as all of its cells agree. An empty cell is null in a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    Integer,
    Real,
    Text,
    /// Each cell has its own type.
    Any,
}

impl Type {
    fn of<'a>(cells: impl Iterator<Item = &'a str>) -> Type {
        let mut all = None;
        for cell in cells.filter(|cell| !cell.is_empty()) {
            let one = match cell.parse::<i64>() {
                // A number in another notation, such as `007` or `+1`, is a name.
                Ok(number) if number.to_string() == cell => Type::Integer,
                Ok(_) => return Type::Text,
                Err(_) if is_decimal(cell) => Type::Real,
                Err(_) => return Type::Text,
            };
            all = Some(if all.is_none_or(|all| all == one) { one } else { Type::Real });
        }
        all.unwrap_or(Type::Text)
    }

    fn read(self, cell: String) -> Sql {
        match self {
            Type::Integer | Type::Real if cell.is_empty() => Sql::Null,
            Type::Integer => cell.parse().map_or(Sql::Null, Sql::Integer),
            Type::Real => cell.parse().map_or(Sql::Null, Sql::Real),
            Type::Text | Type::Any => Sql::Text(cell.into()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Type::Integer => " INTEGER",
            Type::Real => " REAL",
            Type::Text => " TEXT",
            Type::Any => "",
        }
    }
}

/// Returns `true` if the cell is a number with a point or an exponent; `inf` and `nan` are words.
fn is_decimal(cell: &str) -> bool {
    cell.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E'))
        && cell.parse::<f64>().is_ok_and(f64::is_finite)
}

/// A table that is being filled, many rows per insert.
struct Rows<'a> {
    connection: &'a mut Connection,
    table: String,
    width: usize,
    values: Vec<Sql>,
}

impl<'a> Rows<'a> {
    fn create(
        connection: &'a mut Connection,
        table: &str,
        columns: &[String],
        types: &[Type],
    ) -> Result<Rows<'a>, Error> {
        if columns.is_empty() {
            return Err(Error::Invalid(format!("the file of table `{table}` has no columns")));
        }
        let listed: Vec<_> = columns.iter().zip(types).map(|(name, kind)| quoted(name) + kind.name()).collect();
        let create = format!("CREATE TABLE {} ({})", quoted(table), listed.join(", "));
        for statement in [create.as_str(), "BEGIN"] {
            connection.execute(statement).map_err(|cause| failed(table, &cause))?;
        }
        Ok(Rows { connection, table: quoted(table), width: columns.len(), values: Vec::new() })
    }

    fn push(&mut self, row: impl Iterator<Item = Sql>) -> Result<(), Error> {
        self.values.extend(row);
        match self.values.len() >= VALUES_PER_INSERT {
            true => self.insert(),
            false => Ok(()),
        }
    }

    fn insert(&mut self) -> Result<(), Error> {
        if self.values.is_empty() {
            return Ok(());
        }
        let row = format!("({})", vec!["?"; self.width].join(","));
        let rows = vec![row.as_str(); self.values.len() / self.width].join(",");
        let insert = format!("INSERT INTO {} VALUES {rows}", self.table);
        let params = Params { positional: std::mem::take(&mut self.values), named: Vec::new() };
        self.connection.execute_params(&insert, &params).map(drop).map_err(|cause| failed(&self.table, &cause))
    }

    fn finish(mut self) -> Result<(), Error> {
        self.insert()?;
        self.connection.execute("COMMIT").map(drop).map_err(|cause| failed(&self.table, &cause))
    }
}

/// Quotes a name for SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn failed(table: &str, cause: &graphitesql::Error) -> Error {
    Error::Invalid(format!("table {table}: {cause}"))
}
