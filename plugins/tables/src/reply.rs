//! Rows as a model reads them.

use serde::Serialize;
use serde_json::Value;
use shelly_plugin::{Error, Reply};

/// Rows of a result.
pub(crate) const MAX_ROWS: usize = 1_000;

/// Bytes of the rows of a result, as JSON.
const MAX_BYTES: usize = 256 * 1024;

/// Characters of a cell.
const MAX_CELL: usize = 10_000;

/// Some rows, and how many there are.
#[derive(Serialize, Debug)]
pub(crate) struct Page {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// Rows that fit, those of other pages too.
    fitting_rows: u64,
    /// Why not all rows are here.
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

    /// A row that comes before this page.
    pub(crate) fn skipped(&mut self) {
        self.fitting_rows += 1;
    }

    /// A row, which is only made if there is room.
    pub(crate) fn push(&mut self, row: impl FnOnce() -> Vec<Value>) {
        self.fitting_rows += 1;
        if self.cut.is_some() {
            return;
        }
        if self.rows.len() == self.limit {
            self.cut = Some("there are more rows: ask for the next page, or for less");
            return;
        }
        let mut row = row();
        row.iter_mut().for_each(shorten);
        self.bytes += row.iter().map(|value| value.to_string().len() + 1).sum::<usize>();
        match self.bytes > MAX_BYTES {
            true => self.cut = Some("more rows would be too long: ask for the next page, or for fewer columns"),
            false => self.rows.push(row),
        }
    }

    pub(crate) fn reply(&self) -> Result<Reply, Error> {
        Reply::json(self)
    }
}

/// A cell that is very long is shown in part, and says so.
fn shorten(value: &mut Value) {
    let Value::String(text) = value else { return };
    if let Some((end, _)) = text.char_indices().nth(MAX_CELL) {
        let length = text.chars().count();
        text.truncate(end);
        text.push_str(&format!("… ({length} characters)"));
    }
}
