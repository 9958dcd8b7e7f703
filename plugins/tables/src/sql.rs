//! Running of a single read-only query.

use graphitesql::{Connection, Value as Sql};
use serde_json::Value;
use shelly_plugin::Error;

use crate::reply::{MAX_ROWS, Page};

/// The maximum size of a query in bytes.
const MAX_QUERY: usize = 16 * 1024;

/// The maximum depth of nested brackets in a query: its parser is recursive.
const MAX_DEPTH: usize = 100;

/// The maximum number of bytes of a blob that are shown.
const MAX_BLOB: usize = 256;

/// The actions of a read-only statement, by SQLite's numbers: read, select, function, recursive.
const READING: [i32; 4] = [20, 21, 31, 33];

pub(crate) fn check(query: &str) -> Result<(), Error> {
    if query.len() > MAX_QUERY {
        return Err(Error::TooLarge(format!("`query` has {} bytes, the maximum is {MAX_QUERY}", query.len())));
    }
    let mut depth = 0_usize;
    for byte in query.bytes() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Error::TooLarge(format!("`query` has more than {MAX_DEPTH} nested brackets")));
        }
    }
    Ok(())
}

pub(crate) fn query(connection: &Connection, query: &str) -> Result<Page, Error> {
    connection.set_authorizer(|action, _, _, _, _| i32::from(!READING.contains(&action)));
    let result = connection.query(query).map_err(|cause| {
        let hint = match cause.to_string().as_str() {
            cause if cause.contains("not authorized") || cause.contains("use execute()") => "; only SELECT is allowed",
            _ => "",
        };
        Error::Invalid(format!("`query`: {cause}{hint}"))
    })?;
    let mut page = Page::new(result.columns, MAX_ROWS);
    for row in result.rows {
        page.push(|| row.into_iter().map(json).collect());
    }
    Ok(page)
}

fn json(value: Sql) -> Value {
    match value {
        Sql::Null => Value::Null,
        Sql::Integer(number) => number.into(),
        Sql::Real(number) => number.into(),
        Sql::Text(text) => text.to_str_lossy().into_owned().into(),
        Sql::Blob(bytes) => {
            let hex = base16ct::lower::encode_string(&bytes[..bytes.len().min(MAX_BLOB)]);
            let more = if bytes.len() > MAX_BLOB { format!("… ({} bytes)", bytes.len()) } else { String::new() };
            format!("x'{hex}'{more}").into()
        }
    }
}
