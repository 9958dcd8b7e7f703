//! Conditions on the cells of a row.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Condition {
    /// The name of a column.
    pub(crate) column: String,
    /// The comparison of the cell with `value`: as numbers if both are numbers, else as texts.
    op: Op,
    /// The value to compare the cell with.
    value: String,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
enum Op {
    #[serde(rename = "=")]
    Equal,
    #[serde(rename = "!=")]
    NotEqual,
    #[serde(rename = "<")]
    Less,
    #[serde(rename = "<=")]
    LessOrEqual,
    #[serde(rename = ">")]
    Greater,
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// The case of letters is ignored.
    #[serde(rename = "contains")]
    Contains,
}

impl Condition {
    pub(crate) fn fits(&self, cell: &str) -> bool {
        let order = || match (cell.trim().parse::<f64>(), self.value.trim().parse::<f64>()) {
            (Ok(cell), Ok(value)) => cell.partial_cmp(&value),
            _ => Some(cell.cmp(&self.value)),
        };
        match self.op {
            Op::Equal => order() == Some(Ordering::Equal),
            Op::NotEqual => order() != Some(Ordering::Equal),
            Op::Less => order() == Some(Ordering::Less),
            Op::LessOrEqual => order().is_some_and(Ordering::is_le),
            Op::Greater => order() == Some(Ordering::Greater),
            Op::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
            Op::Contains => cell.to_lowercase().contains(&self.value.to_lowercase()),
        }
    }
}
