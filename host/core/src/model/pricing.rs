use std::collections::BTreeMap;

pub use crate::capability::Price;
use crate::limits;

/// The list prices that are built into the host.
const LIST_PRICES: &str = include_str!("pricing.yaml");

/// The prices of models, by kind of provider and prefix of the model's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceTable(BTreeMap<String, BTreeMap<String, Price>>);

/// The reason why a price list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum PriceListError {
    /// The list is too long.
    #[error(
        "the price list has {bytes} bytes, the maximum is {}; leave out models that you do not use",
        limits::PRICE_LIST_BYTES
    )]
    TooLarge { bytes: usize },
    /// The list and the earlier prices together cover too many models.
    #[error(
        "the price lists have {models} models, the maximum is {}; leave out those that you do not use",
        limits::PRICES
    )]
    TooMany { models: usize },
    /// The list is not YAML, or contains something other than prices; `position` is the line and column.
    #[error(
        "{cause}{}; write prices in dollars per million tokens: `openai: {{gpt-5: {{input: 1.25, output: 10}}}}`",
        position.map_or(String::new(), |(line, column)| format!(" (line {line}, column {column})"))
    )]
    Malformed { cause: String, position: Option<(u64, u64)> },
}

impl PriceTable {
    /// Creates a table without prices.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a table of the public list prices of well-known models of Anthropic, OpenAI, xAI and Google. They may be out
    /// of date.
    pub fn list_prices() -> Self {
        let mut table = Self::new();
        table.extend(LIST_PRICES).expect("a test reads the list that the host comes with");
        table
    }

    /// Adds the prices of a list: YAML such as `openai: {gpt-5: {input: 1.25, output: 10, cache_read: 0.125}}`. An entry
    /// replaces an earlier one for the same prefix; the prefix `""` matches every model of its kind.
    ///
    /// # Errors
    ///
    /// [`PriceListError`], in which case nothing of the list is added.
    pub fn extend(&mut self, yaml: &str) -> Result<(), PriceListError> {
        if yaml.len() > limits::PRICE_LIST_BYTES {
            return Err(PriceListError::TooLarge { bytes: yaml.len() });
        }
        if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(());
        }
        let list: BTreeMap<String, BTreeMap<String, Price>> = serde_saphyr::from_str(yaml).map_err(malformed)?;
        let mut all = self.0.clone();
        for (kind, prices) in list {
            let prices = prices.into_iter().map(|(model, price)| (model.to_lowercase(), price));
            all.entry(kind.to_lowercase()).or_default().extend(prices);
        }
        let models = all.values().map(BTreeMap::len).sum();
        if models > limits::PRICES {
            return Err(PriceListError::TooMany { models });
        }
        self.0 = all;
        Ok(())
    }

    /// Returns the price of a model: the entry with the longest prefix of its name, ignoring case. `None` if the price is
    /// unknown.
    pub fn price(&self, kind: &str, model: &str) -> Option<Price> {
        let (prices, model) = (self.0.get(&kind.to_lowercase())?, model.to_lowercase());
        let fits = prices.iter().filter(|(beginning, _)| model.starts_with(beginning.as_str()));
        fits.max_by_key(|(beginning, _)| beginning.len()).map(|(_, price)| *price)
    }
}

fn malformed(error: serde_saphyr::Error) -> PriceListError {
    use serde_saphyr::Error;
    let cause = match error.without_snippet() {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key `{key}`"),
        Error::Unexpected { expected: "mapping start", .. } => "expected entries of the form `key: value`".into(),
        other => {
            let text = other.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.rsplit_once(" at line ").map_or(first, |(cause, _)| cause).to_owned()
        }
    };
    let position = error.location().map(|at| (at.line(), at.column()));
    PriceListError::Malformed { cause, position }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Usd;

    fn dollars(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn longest_model_prefix_determines_price() {
        let table = PriceTable::list_prices();
        for (kind, model, output) in [
            ("openai", "gpt-4o", Some("10")),
            ("openai", "gpt-4o-mini-2024-07-18", Some("0.60")),
            ("openai", "gpt-4o-2024-05-13", Some("15")),
            ("OpenAI", "GPT-5-Mini", Some("2")),
            ("openai", "grok-4-fast-reasoning", Some("0.5")),
            ("grok", "grok-4-0709", Some("15")),
            ("anthropic", "claude-sonnet-4-5-20250929", Some("15")),
            ("anthropic", "claude-opus-4-1-20250805", Some("75")),
            ("anthropic", "claude-opus-4-5-20251101", Some("25")),
            ("gemini", "gemini-2.5-flash-lite", Some("0.40")),
            ("openai", "gpt-5.4-nano-2026-03-17", Some("1.25")),
            ("openai", "o3-deep-research-2025-06-26", Some("40")),
            ("openai", "gpt-6.1-sol", Some("10")),
            ("openai", "gpt-6.1-luna", None),
            ("openai", "grok-4.5", Some("6")),
            ("grok", "grok-4.20-0309-reasoning", Some("2.5")),
            ("anthropic", "claude-haiku-5-5", Some("0.5")),
            ("gemini", "gemini-3.5-flash-lite", Some("2.5")),
            ("gemini", "gemini-3.1-pro-preview", Some("12")),
            ("anthropic", "gpt-4o", None),
            ("openai", "gpt", None),
            ("openai", "", None),
            ("plugin", "gpt-4o", None),
        ] {
            let price = table.price(kind, model).map(|price| price.output);
            assert_eq!(price, output.map(dollars), "{kind} {model}");
        }
        let sonnet = table.price("anthropic", "claude-sonnet-5-5-20260928").unwrap();
        assert_eq!([sonnet.cache_read, sonnet.cache_write], ["0.10", "2.50"].map(dollars));
    }

    #[test]
    fn user_price_list_overrides_and_extends_defaults() {
        let mut table = PriceTable::list_prices();
        let own = "
            openai:
              GPT-5: {input: 1, output: 2}
              gpt-5-mini-special: {input: 3, output: 4, cache_read: 0.5}
            plugin:
              '': {input: 0, output: 0}";
        table.extend(own).unwrap();
        for (kind, model, input, output, cache_read) in [
            ("openai", "gpt-5", "1", "2", "1"),
            ("openai", "gpt-5-mini", "0.25", "2", "0.025"),
            ("openai", "gpt-5-mini-special-x", "3", "4", "0.5"),
            ("plugin", "whatever", "0", "0", "0"),
        ] {
            let input = dollars(input);
            let price = Price { input, output: dollars(output), cache_read: dollars(cache_read), cache_write: input };
            assert_eq!(table.price(kind, model), Some(price), "{kind} {model}");
        }
        let before = table.clone();
        for empty in ["", "\n", "# nothing yet\n", "{}"] {
            table.extend(empty).unwrap();
        }
        assert_eq!(table, before);
    }

    #[test]
    fn malformed_price_list_is_refused_with_position() {
        let mut table = PriceTable::new();
        for (yaml, says) in [
            ("openai:\n  m: {input: 1}", "missing field `output` (line 2, column"),
            (
                "openai:\n  m: {input: 1, output: 2, cache: 3}",
                "unknown field `cache`, expected one of input, output, cache_read, cache_write (line 2, column 28)",
            ),
            (
                "openai:\n  m: {input: -1, output: 2}",
                "at most 12 digits after the point, such as 0.50 (line 2, column 14)",
            ),
            ("openai:\n  m: {input: much, output: 2}", "(line 2, column 14)"),
            ("openai:\n  m: 3", "expected entries of the form `key: value` (line 2, column 6)"),
            ("a: {m: {input: 1, output: 2}}\nopenai: [", "(line "),
            ("- a", "(line 1, column 1); write prices in dollars per million tokens: `openai: {gpt-5: {input"),
            ("a: {m: {input: 1, output: 2}, m: {input: 1, output: 2}}", "duplicate key `m` (line 1, column 31)"),
        ] {
            let error = table.extend(yaml).unwrap_err().to_string();
            assert!(error.contains(says), "{yaml}: {error}");
        }
        assert_eq!(table, PriceTable::new());
    }

    #[test]
    fn lists_are_bounded() {
        let mut table = PriceTable::new();
        let bytes = limits::PRICE_LIST_BYTES;
        table.extend(&format!("#{}", " ".repeat(bytes - 1))).unwrap();
        assert_eq!(table.extend(&"#".repeat(bytes + 1)), Err(PriceListError::TooLarge { bytes: bytes + 1 }));
        let list = |first: usize, last: usize| {
            let models = (first..last).map(|n| format!(" m{n}: {{input: 1, output: 2}}\n"));
            format!("openai:\n{}", models.collect::<String>())
        };
        table.extend(&list(0, limits::PRICES)).unwrap();
        table.extend(&list(0, 10)).unwrap();
        let models = limits::PRICES + 1;
        assert_eq!(table.extend(&list(limits::PRICES, models)), Err(PriceListError::TooMany { models }));
        assert_eq!(table.price("openai", &format!("m{}", limits::PRICES)), table.price("openai", "m0"));
    }
}
