//! Money: amounts, and the price of tokens.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{chat::Usage, limits};

/// Pico-dollars in a dollar.
const DOLLAR: u64 = 1_000_000_000_000;
/// The number of decimals of a dollar that a pico-dollar needs.
const DECIMALS: usize = 12;
/// The number of tokens to which a price refers.
const PRICED_TOKENS: u64 = 1_000_000;

/// An amount of US dollars, never negative, in whole pico-dollars: fine enough that a price per million tokens with six
/// decimals is a whole number per token. Sums saturate at $18,446,744 instead of overflowing.
///
/// People and models write it as a number or text of dollars from 0 to [`limits::MONEY_DOLLARS`], with at most twelve
/// decimals. Its JSON is a number of dollars, exact below $1,000 and to 15 digits above; a larger amount than may be written
/// is serialized as the maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);

    /// Creates an amount of `pico` pico-dollars.
    pub const fn from_pico(pico: u64) -> Self {
        Self(pico)
    }

    /// Returns the amount in pico-dollars.
    pub const fn pico(self) -> u64 {
        self.0
    }

    /// Returns the sum; it saturates.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference; 0 if `other` is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Converts a number of dollars. Digits after the twelfth decimal are cut: a sum of binary fractions has stray ones.
    fn from_f64(dollars: f64) -> Result<Self, ParseUsdError> {
        if !(0.0..=limits::MONEY_DOLLARS as f64).contains(&dollars) {
            return Err(ParseUsdError);
        }
        // The shortest text that parses to this number, never in scientific notation.
        let text = dollars.abs().to_string();
        match text.split_once('.') {
            Some((whole, fraction)) => format!("{whole}.{}", &fraction[..fraction.len().min(DECIMALS)]).parse(),
            None => text.parse(),
        }
    }
}

/// Formats as `$0.0123`: four decimals, or four significant digits where that is more; trailing zeros are removed down to
/// cents.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zeros = if self.0 == 0 { 0 } else { (DECIMALS - 1).saturating_sub(self.0.ilog10() as usize) };
        let unit = 10_u128.pow((DECIMALS - (zeros + 4).min(DECIMALS)) as u32);
        let rounded = (u128::from(self.0) + unit / 2) / unit * unit;
        let (whole, fraction) = (rounded / u128::from(DOLLAR), rounded % u128::from(DOLLAR));
        let fraction = format!("{fraction:012}");
        let shown = fraction.trim_end_matches('0').len().max(2);
        write!(f, "${whole}.{}", &fraction[..shown])
    }
}

/// The error for a text or number that is no valid amount of dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid amount of US dollars; write a number from 0 to {} with at most {DECIMALS} digits after the point, such \
     as 0.50",
    limits::MONEY_DOLLARS
)]
pub struct ParseUsdError;

impl FromStr for Usd {
    type Err = ParseUsdError;

    /// Parses `0.50` or `$0.50`.
    fn from_str(text: &str) -> Result<Self, ParseUsdError> {
        let text = text.trim();
        let digits = text.strip_prefix('$').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > DECIMALS {
            return Err(ParseUsdError);
        }
        let whole: u64 = whole.parse().map_err(|_| ParseUsdError)?;
        let fraction: u64 = format!("{fraction:0<DECIMALS$}").parse().map_err(|_| ParseUsdError)?;
        let pico = whole.checked_mul(DOLLAR).and_then(|pico| pico.checked_add(fraction)).ok_or(ParseUsdError)?;
        if pico > limits::MONEY_DOLLARS * DOLLAR { Err(ParseUsdError) } else { Ok(Self(pico)) }
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A vendor may report any usage; the clamped value can always be read again.
        serializer.serialize_f64(self.0.min(limits::MONEY_DOLLARS * DOLLAR) as f64 / DOLLAR as f64)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UsdVisitor;

        impl de::Visitor<'_> for UsdVisitor {
            type Value = Usd;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of US dollars such as 0.50")
            }

            fn visit_u64<E: de::Error>(self, dollars: u64) -> Result<Usd, E> {
                dollars.to_string().parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, dollars: i64) -> Result<Usd, E> {
                dollars.to_string().parse().map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, dollars: f64) -> Result<Usd, E> {
                Usd::from_f64(dollars).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, dollars: &str) -> Result<Usd, E> {
                dollars.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(UsdVisitor)
    }
}

impl JsonSchema for Usd {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "string"], "minimum": 0, "maximum": limits::MONEY_DOLLARS, "examples": [0.5, "$0.50"] })
    }
}

/// The price of a model in US dollars per million tokens, for each kind of token that [`Usage`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "PriceEntry")]
pub struct Price {
    /// The price of tokens neither read from nor written to the vendor's cache.
    pub input: Usd,
    /// The price of reply tokens, thinking included.
    pub output: Usd,
    /// The price of tokens read from the cache.
    pub cache_read: Usd,
    /// The price of tokens written to the cache.
    pub cache_write: Usd,
}

/// A price in its config form: without cache prices, cached tokens cost as much as input.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    /// The price of tokens neither read from nor written to the vendor's cache.
    input: Usd,
    /// The price of reply tokens, thinking included.
    output: Usd,
    /// The price of tokens read from the cache; `None`: that of input.
    cache_read: Option<Usd>,
    /// The price of tokens written to the cache; `None`: that of input.
    cache_write: Option<Usd>,
}

impl From<PriceEntry> for Price {
    fn from(entry: PriceEntry) -> Self {
        let PriceEntry { input, output, cache_read, cache_write } = entry;
        Self { input, output, cache_read: cache_read.unwrap_or(input), cache_write: cache_write.unwrap_or(input) }
    }
}

impl Price {
    /// The price of a model for which nobody sends a bill.
    pub const FREE: Self = Self { input: Usd::ZERO, output: Usd::ZERO, cache_read: Usd::ZERO, cache_write: Usd::ZERO };

    /// Returns the cost of this usage: exact where the prices have at most six decimals, otherwise rounded up to a
    /// pico-dollar.
    pub fn of(&self, usage: &Usage) -> Usd {
        let millionths = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ]
        .into_iter()
        .map(|(tokens, price)| u128::from(tokens) * u128::from(price.0))
        .fold(0, u128::saturating_add);
        Usd(u64::try_from(millionths.div_ceil(u128::from(PRICED_TOKENS))).unwrap_or(u64::MAX))
    }

    /// Returns the maximum cost of this request and reply: all request tokens at the highest input price.
    pub fn at_most(&self, request_tokens: u64, reply_tokens: u64) -> Usd {
        let dearest = Self { input: self.dearest_input(), ..*self };
        dearest.of(&Usage { input_tokens: request_tokens, output_tokens: reply_tokens, ..Usage::default() })
    }

    /// Returns the number of reply tokens that `money` pays for after the request; `None` if it does not pay for the
    /// request.
    pub fn reply_tokens(&self, money: Usd, request_tokens: u64) -> Option<u64> {
        let request = u128::from(request_tokens) * u128::from(self.dearest_input().0);
        let rest = (u128::from(money.0) * u128::from(PRICED_TOKENS)).checked_sub(request)?;
        let tokens = rest.checked_div(u128::from(self.output.0)).unwrap_or(u128::MAX);
        Some(u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    fn dearest_input(&self) -> Usd {
        self.input.max(self.cache_read).max(self.cache_write)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_amount_is_read_and_shown() {
        for (text, pico, shown) in [
            ("0", 0, "$0.00"),
            ("$0.50", 500_000_000_000, "$0.50"),
            (" 12 ", 12_000_000_000_000, "$12.00"),
            ("0.0123", 12_300_000_000, "$0.0123"),
            ("0.000000000001", 1, "$0.000000000001"),
            ("0.012345678", 12_345_678_000, "$0.01235"),
            ("0.999999", 999_999_000_000, "$1.00"),
            ("3.14159", 3_141_590_000_000, "$3.1416"),
            ("1000000", 1_000_000_000_000_000_000, "$1000000.00"),
        ] {
            let usd: Usd = text.parse().unwrap();
            assert_eq!((usd.pico(), usd.to_string().as_str()), (pico, shown), "{text}");
        }
        assert_eq!(Usd::from_pico(u64::MAX).to_string(), "$18446744.0737");
    }

    #[test]
    fn invalid_usd_amount_is_refused() {
        for text in
            ["", "$", "-1", "+1", "1e3", "1.", ".5", "1,5", "NaN", "inf", "0.0000000000001", "1000000.01", "٣", "1.2.3"]
        {
            assert_eq!(text.parse::<Usd>(), Err(ParseUsdError), "{text}");
            assert!(serde_json::from_value::<Usd>(text.into()).is_err(), "{text}");
        }
        for json in ["-1", "-0.5", "1000001", "1e300", "null", "true", "[1]"] {
            assert!(serde_json::from_str::<Usd>(json).is_err(), "{json}");
        }
        let error = serde_json::from_str::<Usd>("-1").unwrap_err().to_string();
        assert!(error.contains("a number from 0 to 1000000 with at most 12 digits after the point"), "{error}");
    }

    #[test]
    fn json_numbers_parse_as_dollars() {
        for (json, pico) in [
            ("1", 1_000_000_000_000),
            ("0.1", 100_000_000_000),
            ("-0.0", 0),
            ("1e-12", 1),
            ("1e-13", 0),
            ("0.30000000000000004", 300_000_000_000),
            ("123456.789", 123_456_789_000_000_000),
            (r#""0.02""#, 20_000_000_000),
        ] {
            assert_eq!(serde_json::from_str::<Usd>(json).unwrap().pico(), pico, "{json}");
        }
        assert_eq!(serde_json::to_string(&Usd::from_pico(12_300_000_000)).unwrap(), "0.0123");
    }

    #[test]
    fn serialized_usd_amount_parses_again() {
        for (pico, read) in [
            (1_234_567_891_234, 1_234_567_891_234),
            (limits::MONEY_DOLLARS * DOLLAR, limits::MONEY_DOLLARS * DOLLAR),
            (limits::MONEY_DOLLARS * DOLLAR + 1, limits::MONEY_DOLLARS * DOLLAR),
            (u64::MAX, limits::MONEY_DOLLARS * DOLLAR),
        ] {
            let json = serde_json::to_string(&Usd(pico)).unwrap();
            assert_eq!(serde_json::from_str::<Usd>(&json).unwrap(), Usd(read), "{json}");
        }
    }

    const SONNET: &str = r#"{"input": 3, "output": 15, "cache_read": 0.30, "cache_write": 3.75}"#;

    #[test]
    fn a_price_is_exact() {
        let price: Price = serde_json::from_str(SONNET).unwrap();
        let tiny: Price = serde_json::from_str(r#"{"input": 0.000001, "output": 0.0000001}"#).unwrap();
        let usage = |input_tokens, output_tokens, cache_read_tokens, cache_write_tokens| Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
        };
        for (price, usage, pico) in [
            (price, usage(0, 0, 0, 0), 0),
            (price, usage(1, 0, 0, 0), 3_000_000),
            (price, usage(1_000, 200, 5_000, 400), 3_000_000_000 + 3_000_000_000 + 1_500_000_000 + 1_500_000_000),
            (price, usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX), u64::MAX),
            (tiny, usage(7, 0, 0, 0), 7),
            (tiny, usage(0, 0, 2, 3), 5),
            // A tenth of a pico-dollar per token is rounded up once, not for each token.
            (tiny, usage(0, 11, 0, 0), 2),
        ] {
            assert_eq!(price.of(&usage).pico(), pico, "{usage:?}");
        }
        for wrong in [r#"{"input": 1}"#, r#"{"input": 1, "output": 2, "cached": 1}"#, r#"{"input": -1, "output": 2}"#] {
            assert!(serde_json::from_str::<Price>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reply_tokens_for_money_match_the_price() {
        let price: Price = serde_json::from_str(SONNET).unwrap();
        let free = Price { input: Usd::ZERO, output: Usd::ZERO, cache_read: Usd::ZERO, cache_write: Usd::ZERO };
        // A request token is counted at $3.75 per million, the price of a cache write.
        for (price, money, request, tokens) in [
            (price, 3_750_000, 1, Some(0)),
            (price, 3_749_999, 1, None),
            (price, 3_750_000 + 14_999_999, 1, Some(0)),
            (price, 3_750_000 + 15_000_000, 1, Some(1)),
            (price, 1_000_000_000_000, 0, Some(66_666)),
            (price, u64::MAX, u64::MAX, None),
            (free, 0, 1_000, Some(u64::MAX)),
        ] {
            assert_eq!(price.reply_tokens(Usd::from_pico(money), request), tokens, "{money} {request}");
        }
    }

    proptest! {
        #[test]
        fn json_is_exact_below_a_thousand_dollars(pico in 0..1_000 * DOLLAR) {
            let json = serde_json::to_string(&Usd(pico)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Usd>(&json).unwrap(), Usd(pico), "{}", json);
        }

        #[test]
        fn tokens_bought_cost_at_most_the_money(money: u64, request: u32, prices: [u32; 4]) {
            let [input, output, cache_read, cache_write] = prices.map(|price| Usd(u64::from(price) * 1_000));
            let price = Price { input, output, cache_read, cache_write };
            let (money, request) = (Usd(money), u64::from(request));
            match price.reply_tokens(money, request) {
                Some(reply) => {
                    prop_assert!(price.at_most(request, reply) <= money);
                    prop_assert!(reply == u64::MAX || price.at_most(request, reply + 1) > money);
                }
                None => prop_assert!(price.at_most(request, 0) > money),
            }
        }
    }
}
