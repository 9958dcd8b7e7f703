//! Limits of budgets, prices and ledgers.

use std::time::Duration;

/// The largest amount that a budget or a price can name, in whole dollars. A larger one is a typing error.
pub const MONEY_DOLLARS: u64 = 1_000_000;
/// The longest wall time that a budget can name: 30 days, beyond any run.
pub const BUDGET_TIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The reply limit that every model supports. While a budget has room for this many tokens, a request without a limit is
/// left to the model's default: models with shorter replies would refuse a higher limit.
pub const REPLY_TOKENS_OF_ANY_MODEL: u64 = 4_096;
/// The maximum bytes of one price list.
pub const PRICE_LIST_BYTES: usize = 1 << 20;
/// The maximum number of models in all price lists together. All vendors together have some hundreds.
pub const PRICES: usize = 4_096;
/// The maximum number of agents with their own row in a ledger; the usage of further ones is added to one common row.
pub const LEDGER_AGENTS: usize = 1_024;
