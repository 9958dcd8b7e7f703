//! Tools that query tables in files of granted folders. The files are never changed.
//!
//! `csv_read` returns rows of a CSV file of any size, which is read piece by piece: selected columns, rows that match
//! conditions, one page at a time. `sql_query` runs one SELECT, in SQLite's SQL, on CSV, TSV and JSON files as tables, or
//! on a SQLite database file. Queries have no clock (`'now'` is null), and `random()` returns the same numbers in every
//! call.
//!
//! Bounds: 1,000 rows and 256 KiB a result; 32 MiB of files that become tables, 1,000 columns, 8 tables; 16 KiB of SQL
//! and 100 nested brackets. The host bounds the time and memory of a query.

use std::io::BufReader;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

mod condition;
mod csv_file;
mod database;
mod import;
mod reply;
mod source;
mod sql;

use condition::Condition;
use csv_file::Delimiter;
use import::TableFile;
use reply::Page;
use source::Reader;

shelly_plugin::export!(tools: [CsvRead, SqlQuery]);

/// The size of the pieces in which a file is read. Larger pieces need fewer calls of the host.
const PIECE: usize = 256 * 1024;

struct CsvRead;

#[derive(Deserialize, JsonSchema)]
struct CsvReadArgs {
    /// The file, such as `data/sales.csv`. Its first row names the columns.
    path: String,
    /// The names of the columns to return; all if left out.
    columns: Option<Vec<String>>,
    /// Conditions, all of which a row must match.
    #[serde(rename = "where")]
    conditions: Option<Vec<Condition>>,
    /// The number of matching rows to skip; 0 if left out.
    offset: Option<u64>,
    /// The number of rows to return, 1 to 1000; 100 if left out.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// The separator of columns; detected from the first row if left out.
    delimiter: Option<Delimiter>,
}

impl Tool for CsvRead {
    const NAME: &'static str = "csv_read";
    const DESCRIPTION: &'static str = "Reads rows of a CSV or TSV file, with conditions and paging, and counts the \
                                       matching rows. For sums, groups and joins use `sql_query`.";
    const HINTS: ToolHints = ToolHints::all();
    type Args = CsvReadArgs;

    fn call(args: CsvReadArgs, _call: &Call) -> Result<Reply, Error> {
        let reader = Reader::open(&args.path)?;
        read_csv(&args, BufReader::with_capacity(PIECE, reader))?.reply()
    }
}

fn read_csv(args: &CsvReadArgs, text: impl std::io::BufRead) -> Result<Page, Error> {
    let limit = args.limit.unwrap_or(100);
    if !(1..=reply::MAX_ROWS).contains(&limit) {
        return Err(Error::Invalid(format!("`limit` is {limit}; use 1 to {}", reply::MAX_ROWS)));
    }
    let mut file = csv_file::open(text, &args.path, args.delimiter)?;
    let wanted = match &args.columns {
        Some(names) => names.iter().map(|name| file.column(name)).collect::<Result<_, _>>()?,
        None => (0..file.columns().len()).collect::<Vec<usize>>(),
    };
    let conditions = args.conditions.iter().flatten();
    let conditions = conditions.map(|one| Ok((file.column(&one.column)?, one))).collect::<Result<Vec<_>, Error>>()?;
    let mut page = Page::new(wanted.iter().map(|column| file.columns()[*column].clone()).collect(), limit);
    let mut skip = args.offset.unwrap_or(0);
    while let Some(row) = file.next()? {
        if !conditions.iter().all(|(column, condition)| condition.fits(&row[*column])) {
            continue;
        }
        if skip > 0 {
            skip -= 1;
            page.skipped();
            continue;
        }
        page.push(|| wanted.iter().map(|column| Value::from(&row[*column])).collect());
    }
    Ok(page)
}

struct SqlQuery;

#[derive(Deserialize, JsonSchema)]
struct SqlQueryArgs {
    /// One SELECT (or WITH … SELECT) in SQLite's SQL: `SELECT kind, sum(price) FROM sales GROUP BY kind`.
    query: String,
    /// CSV, TSV, JSON or JSON lines files to query as tables.
    tables: Option<Vec<TableFile>>,
    /// A SQLite database file to query. Either this or `tables`. `SELECT name, sql FROM sqlite_schema` lists tables.
    database: Option<String>,
}

impl Tool for SqlQuery {
    const NAME: &'static str = "sql_query";
    const DESCRIPTION: &'static str = "Runs an SQL query (SQLite's dialect) on CSV, TSV, JSON and JSON lines files, \
                                       or on a SQLite database file: joins, groups, windows, functions. Read-only. \
                                       Returns columns and at most 1000 rows.";
    const HINTS: ToolHints = ToolHints::all();
    type Args = SqlQueryArgs;

    fn call(args: SqlQueryArgs, _call: &Call) -> Result<Reply, Error> {
        sql::check(&args.query)?;
        let connection = match (&args.tables, &args.database) {
            (Some(tables), None) => import::open(tables, Reader::open)?,
            (None, Some(path)) => database::open(path, source::Files)?,
            _ => return Err(Error::Invalid("pass either `tables` or `database`".to_owned())),
        };
        sql::query(&connection, &args.query)?.reply()
    }
}

#[cfg(test)]
mod tests;
