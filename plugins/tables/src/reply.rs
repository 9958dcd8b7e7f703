//! Rows in the form that the model receives.

use serde::Serialize;
use serde_json::Value;
use shelly_plugin::{Error, Reply};

/// The maximum number of rows of a result.
pub(crate) const MAX_ROWS: usize = 1_000;

/// The maximum size of the rows of a result as JSON, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The maximum number of characters of a cell.
const MAX_CELL: usize = 10_000;

/// A page of rows, and the number of all matching rows.
#[derive(Serialize, Debug)]
pub(crate) struct Page {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// The number of matching rows, including those of other pages.
    fitting_rows: u64,
    /// The reason why rows are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<&'static str>,
    #[serde(skip)]
    limit: usize,
    #[serde(skip)]
    bytes: usize,
}

impl Page {
    pub(crate) fn new(columns: Vec<String>, limit: usize) -> Page {
        Page { columns, rows: Vec::new(), fitting_rows: 0, cut: None, limit, bytes: 0 }
    }

    /// Counts a row that comes before this page.
    pub(crate) fn skipped(&mut self) {
        self.fitting_rows += 1;
    }

    /// Adds a row, which is built only if there is room.
    pub(crate) fn push(&mut self, row: impl FnOnce() -> Vec<Value>) {
        self.fitting_rows += 1;
        if self.cut.is_some() {
            return;
        }
        if self.rows.len() == self.limit {
            self.cut = Some("there are more rows; ask for the next page, or for fewer rows");
            return;
        }
        let mut row = row();
        row.iter_mut().for_each(shorten);
        self.bytes += row.iter().map(|value| value.to_string().len() + 1).sum::<usize>();
        match self.bytes > MAX_BYTES {
            true => self.cut = Some("more rows would be too long; ask for the next page, or for fewer columns"),
            false => self.rows.push(row),
        }
    }

    pub(crate) fn reply(&self) -> Result<Reply, Error> {
        Reply::json(self)
    }
}

/// Cuts a very long cell, and notes its length.
fn shorten(value: &mut Value) {
    let Value::String(text) = value else { return };
    if let Some((end, _)) = text.char_indices().nth(MAX_CELL) {
        let length = text.chars().count();
        text.truncate(end);
        text.push_str(&format!("… ({length} characters)"));
    }
}
