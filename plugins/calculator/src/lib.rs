//! A calculator. The tool `calculate` evaluates an expression with exact numbers of any length, fractions, complex
//! numbers, units, functions and variables, in the language of [fend](https://printfn.github.io/fend/documentation). The
//! same expression always gives the same result: the calculator has no exchange rates, no clock and no random numbers.
//!
//! Bounds: 4,096 bytes an expression, 64 nested brackets, 500 operators, `MAX_STEPS` steps, 5,000 characters a result.

use std::sync::atomic::{AtomicU64, Ordering};

use fend_core::{Context, Interrupt, evaluate_with_interrupt};
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

shelly_plugin::export!(tools: [Calculate]);

/// The maximum size of an expression in bytes.
const MAX_EXPRESSION: usize = 4_096;

/// The maximum depth of nested brackets: each takes stack.
const MAX_DEPTH: usize = 64;

/// The maximum number of operators and functions: each may take stack.
const MAX_OPERATORS: usize = 500;

/// The maximum number of times that the calculation checks for an interrupt, which it does in all of its loops. A product
/// of long numbers is a single step, so this many steps may take some seconds.
const MAX_STEPS: u64 = 50_000;

/// The maximum length of a result in characters.
const MAX_RESULT: usize = 5_000;

struct Calculate;

#[derive(Deserialize, JsonSchema)]
struct CalculateArgs {
    /// Such as `(17.5% of 2480) + 3^7`, `sqrt(2) to 50 dp`, `80 km/h in m/s`, `0xff to binary`, `r = 3 m; pi * r^2`.
    expression: String,
}

impl Tool for Calculate {
    const NAME: &'static str = "calculate";
    const DESCRIPTION: &'static str = "Calculates with exact numbers of any length, units and conversions (`5 feet 3 \
                                       inches to cm`), percentages, number bases, sqrt, sin, log, factorials, complex \
                                       numbers, variables (`a = 2; a^10`). Returns the result as text, with `approx.` \
                                       before it if it is rounded.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = CalculateArgs;

    fn call(args: CalculateArgs, _call: &Call) -> Result<Reply, Error> {
        calculate(&args.expression, MAX_STEPS).map(Reply::from)
    }
}

fn calculate(expression: &str, max_steps: u64) -> Result<String, Error> {
    check(expression)?;
    let steps = Steps { left: AtomicU64::new(max_steps) };
    let result = evaluate_with_interrupt(expression, &mut Context::new(), &steps);
    if steps.left.load(Ordering::Relaxed) == 0 {
        let message = "the calculation takes too long; use smaller numbers, or ask for fewer digits";
        return Err(Error::TooLarge(message.to_owned()));
    }
    let result = result.map_err(|cause| Error::Invalid(format!("`expression`: {cause}")))?;
    let result = result.get_main_result();
    if result.is_empty() {
        return Err(Error::Invalid("`expression` has no result; end it with the value to calculate".to_owned()));
    }
    let length = result.chars().count();
    if length > MAX_RESULT {
        let message = format!(
            "the result has {length} characters, the maximum is {MAX_RESULT}; round it, as in `({}) to 20 sf`",
            expression.chars().take(40).collect::<String>()
        );
        return Err(Error::TooLarge(message));
    }
    Ok(result.to_owned())
}

/// Checks that the calculator can evaluate the expression without running out of stack, of which each bracket and each
/// operator takes some.
fn check(expression: &str) -> Result<(), Error> {
    if expression.len() > MAX_EXPRESSION {
        let message = format!("`expression` has {} bytes, the maximum is {MAX_EXPRESSION}", expression.len());
        return Err(Error::TooLarge(message));
    }
    let (mut depth, mut deepest, mut operators, mut in_word) = (0_usize, 0, 0, false);
    for character in expression.chars() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        let is_word = character.is_alphanumeric() || matches!(character, '.' | '_' | ',');
        operators += usize::from(!character.is_whitespace() && (!is_word || !in_word));
        in_word = is_word;
    }
    if deepest > MAX_DEPTH {
        let message = format!("`expression` has {deepest} nested brackets, the maximum is {MAX_DEPTH}");
        return Err(Error::TooLarge(message));
    }
    if operators > MAX_OPERATORS {
        let message = format!(
            "`expression` has {operators} numbers, names and signs, the maximum is {MAX_OPERATORS}; calculate its \
             parts one after the other"
        );
        return Err(Error::TooLarge(message));
    }
    check_commas(expression)
}

/// Checks that each comma in a number is followed by exactly three digits. The calculator would ignore any other comma,
/// and many people write 1.5 with a comma.
fn check_commas(expression: &str) -> Result<(), Error> {
    let is_digit = |c: char| c.is_ascii_digit();
    for (at, _) in expression.match_indices(',') {
        let (before, after) = (&expression[..at], &expression[at + 1..]);
        let digits = after.chars().take_while(|c| is_digit(*c)).count();
        if before.ends_with(is_digit) && digits > 0 && digits != 3 {
            let start = before.rfind(|c: char| !is_digit(c) && c != ',').map_or(0, |at| at + 1);
            let start = (start..=at).find(|start| expression.is_char_boundary(*start)).unwrap_or(at);
            let number = &expression[start..=at + digits];
            let message = format!(
                "`expression`: a comma in a number must stand before three digits, unlike in `{number}`; write a \
                 fraction with a point, as 1.5"
            );
            return Err(Error::Invalid(message));
        }
    }
    Ok(())
}

/// An interrupt that ends a calculation after a number of steps. A sandboxed guest without a clock cannot measure time.
struct Steps {
    left: AtomicU64,
}

impl Interrupt for Steps {
    fn should_interrupt(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(1);
        self.left.store(left, Ordering::Relaxed);
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calculator_evaluates_expressions_and_units() {
        let cases = [
            ("1 + 1", "2"),
            ("2^100", "1267650600228229401496703205376"),
            ("0.1 + 0.2", "0.3"),
            ("1/3 to fraction", "1/3"),
            ("17.5% of 2480", "434"),
            ("sqrt(2) to 5 dp", "approx. 1.41421"),
            ("80 km/h in m/s", "approx. 22.2222222222 m / s"),
            ("5 feet 3 inches to cm", "160.02 cm"),
            ("100 °C to °F", "212 °F"),
            ("0xff to binary", "11111111"),
            ("a = 2; a^10", "1024"),
            ("20!", "2432902008176640000"),
            ("sqrt(-4)", "approx. 0 + 2i"),
            ("1,234,567.5 − 0.5", "1234567"),
            ("3 × 4 ÷ 2", "6"),
        ];
        for (expression, expected) in cases {
            assert_eq!(calculate(expression, MAX_STEPS).as_deref(), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn calculator_handles_large_numbers_within_its_step_limit() {
        for expression in
            ["1000!", "2^10000", "3^5000 mod 1000007", "sqrt(2) to 100 dp", "pi to 100 dp", "ln(10) to 50 dp"]
        {
            let start = std::time::Instant::now();
            let result = calculate(expression, MAX_STEPS);
            println!("{expression}: {:?} {:?}", start.elapsed(), result.as_ref().map(String::len));
            assert!(result.is_ok(), "{expression}: {result:?}");
        }
    }

    #[test]
    fn calculator_error_explains_the_cause() {
        for (expression, says) in [
            ("1 / 0", "division by zero"),
            ("1 +", "`expression`: "),
            ("5 kg to m", "incompatible"),
            ("nonsense", "unknown identifier 'nonsense'"),
            ("10 USD to EUR", "exchange rates are not available"),
            ("roll d6", "random"),
            ("today", "current date"),
            ("", "has no result"),
            ("1,5 + 1", "unlike in `1,5`; write a fraction with a point"),
            ("2 × é1,2345", "unlike in `1,2345`"),
            ("1,000,00", "unlike in `1,000,00`"),
            ("√2", "unexpected character"),
        ] {
            let error = calculate(expression, MAX_STEPS).unwrap_err();
            assert!(matches!(&error, Error::Invalid(message) if message.contains(says)), "{expression}: {error:?}");
        }
    }

    #[test]
    fn what_is_too_much_ends_with_an_error_that_says_so() {
        for (expression, says) in [
            ("9^9^9^9", ""),
            ("9^9^9", ""),
            ("100000000!", ""),
            ("10^4999 * 10", "5001 characters"),
            (&"(".repeat(65), "65 nested brackets"),
            (&"-".repeat(501), "501 numbers, names and signs"),
            (&"1+".repeat(2_049), "4098 bytes"),
        ] {
            let start = std::time::Instant::now();
            let error = calculate(expression, MAX_STEPS).unwrap_err();
            println!("{} {error:?} {:?}", expression.get(..20).unwrap_or(expression), start.elapsed());
            assert!(error.to_string().contains(says), "{expression}: {error:?}");
        }
        assert!(
            matches!(calculate("sin(1) to 40 dp", 10), Err(Error::TooLarge(message)) if message.contains("too long"))
        );
    }
}
