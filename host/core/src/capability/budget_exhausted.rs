use std::{fmt, time::Duration};

use super::Usd;
use crate::error::Fault;

/// The exhausted part of a budget with its figures: `needed` is what the next request would take, 0 if unknown; `set_aside`
/// is promised to children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the figures in the sentence above them")]
pub enum BudgetExhausted {
    /// The tokens.
    Tokens { bound: u64, spent: u64, set_aside: u64, needed: u64 },
    /// The cost.
    Money { bound: Usd, spent: Usd, set_aside: Usd, needed: Usd },
    /// The tool calls.
    ToolCalls { bound: u64, spent: u64, set_aside: u64 },
    /// The wall time.
    Time { bound: Duration },
    /// The account is settled: its run is over.
    Settled,
}

impl fmt::Display for BudgetExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn used_up<T: fmt::Display + Default + PartialEq>(
            f: &mut fmt::Formatter<'_>,
            what: &str,
            [bound, spent, set_aside, needed]: [T; 4],
        ) -> fmt::Result {
            write!(f, "the budget of {bound}{what} is used up: {spent} spent")?;
            if set_aside != T::default() {
                write!(f, ", {set_aside} reserved for delegated work")?;
            }
            if needed != T::default() {
                write!(f, ", about {needed} needed for the next request")?;
            }
            Ok(())
        }
        match *self {
            Self::Tokens { bound, spent, set_aside, needed } => {
                used_up(f, " tokens", [bound, spent, set_aside, needed])
            }
            Self::Money { bound, spent, set_aside, needed } => used_up(f, "", [bound, spent, set_aside, needed]),
            Self::ToolCalls { bound, spent, set_aside } => used_up(f, " tool calls", [bound, spent, set_aside, 0]),
            Self::Time { bound } => write!(f, "the time budget of {} is used up", humantime::format_duration(bound)),
            Self::Settled => f.write_str("the budget was released when the run ended"),
        }
    }
}

impl std::error::Error for BudgetExhausted {}

impl From<BudgetExhausted> for Fault {
    fn from(exhausted: BudgetExhausted) -> Self {
        Self::Exhausted { message: format!("{exhausted}; finish with what you have") }
    }
}
