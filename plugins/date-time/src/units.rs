//! Units of time by the names that a model uses.

use jiff::Unit;
use schemars::JsonSchema;
use serde::Deserialize;

/// The largest unit of a duration.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LargestUnit {
    #[default]
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    Seconds,
}

impl LargestUnit {
    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Years => Unit::Year,
            Self::Months => Unit::Month,
            Self::Weeks => Unit::Week,
            Self::Days => Unit::Day,
            Self::Hours => Unit::Hour,
            Self::Minutes => Unit::Minute,
            Self::Seconds => Unit::Second,
        }
    }
}
