//! A model middleware that sends a request to other models in turn when one fails. A request that is itself wrong
//! (`invalid`) would fail anywhere and is not sent again. Any other failure may not occur elsewhere: another vendor has
//! other limits, another key, a larger window.
//!
//! Params: `{"models": ["second", "third"]}`, 1 to 8 names of models in the config, each of which must be granted under
//! `models`. A request that was meant for one of them is not sent to it twice. If all models fail, the last failure
//! stands.

use guest_kit::bad;
use serde::Deserialize;
use shelly_plugin::{
    Error, config, info,
    model_middleware::{AfterDecision, Again, BeforeDecision, ModelMiddleware, Pass, Sending},
    types::{Completion, RunContext},
};

shelly_plugin::export!(model_middleware: Fallback);

/// The maximum number of times that the host repeats a request.
const MOST_MODELS: usize = 8;

struct Fallback;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// The models that a failed request is sent to, in this order.
    models: Vec<String>,
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        if !(1..=MOST_MODELS).contains(&self.models.len()) {
            let there = self.models.len();
            return Err(bad(format_args!("`models` has {there} names; use 1 to {MOST_MODELS}")));
        }
        let twice = |(at, name): (usize, &String)| self.models[..at].contains(name) || name.is_empty();
        if let Some(name) = self.models.iter().enumerate().find(|one| twice(*one)).map(|(_, name)| name) {
            return Err(bad(format_args!("`models` has `{name}` twice, or has an empty name; name each model once")));
        }
        Ok(self)
    }
}

impl ModelMiddleware for Fallback {
    fn before(_cx: RunContext, sending: Sending) -> Result<BeforeDecision, Error> {
        // Invalid params must be reported before they are needed.
        config::<Params>()?.check()?;
        let state = State { next: 0, first: sending.model }.encode();
        Ok(BeforeDecision::Proceed(Pass { model: None, request: None, state }))
    }

    fn after(
        _cx: RunContext,
        sending: Sending,
        reply: Result<Completion, Error>,
        state: Vec<u8>,
    ) -> Result<AfterDecision, Error> {
        let Err(error) = reply else { return Ok(AfterDecision::Accept) };
        let params = config::<Params>()?.check()?;
        let Some((model, state)) = next(&params, &error, State::decode(&state, &sending.model)) else {
            return Ok(AfterDecision::Accept);
        };
        info!("`{}` failed ({}); trying `{model}`", sending.model, error.message());
        Ok(AfterDecision::Retry(Again { model: Some(model), delay_ms: 0, state: state.encode() }))
    }
}

/// Returns the model that a failed request is sent to next; none if the failure stands.
fn next(params: &Params, error: &Error, state: State) -> Option<(String, State)> {
    if matches!(error, Error::Invalid(_)) {
        return None;
    }
    let rest = params.models.iter().enumerate().skip(state.next);
    let (at, model) = rest.into_iter().find(|(_, model)| **model != state.first)?;
    Some((model.clone(), State { next: at + 1, ..state }))
}

/// The progress of a request in the list.
#[derive(Debug, Clone, PartialEq)]
struct State {
    /// The next position in the list.
    next: usize,
    /// The model that the request was meant for.
    first: String,
}

/// The version of the layout: a byte, a byte `next`, the name `first`.
const VERSION: u8 = 1;

impl State {
    fn encode(&self) -> Vec<u8> {
        // There are at most eight models.
        let next = u8::try_from(self.next).unwrap_or(u8::MAX);
        [&[VERSION, next], self.first.as_bytes()].concat()
    }

    /// Decodes the state. A state of another version counts as the start of the list after a failure of `model`.
    fn decode(bytes: &[u8], model: &str) -> State {
        let read = || match bytes {
            [VERSION, next, first @ ..] => {
                Some(State { next: usize::from(*next), first: String::from_utf8(first.to_vec()).ok()? })
            }
            _ => None,
        };
        read().unwrap_or_else(|| State { next: 0, first: model.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use shelly_plugin::types::Retry;

    use super::*;

    fn params(models: &[&str]) -> Params {
        Params { models: models.iter().map(|name| (*name).into()).collect() }
    }

    fn at(next: usize) -> State {
        State { next, first: "own".into() }
    }

    #[test]
    fn fallback_tries_each_model_except_the_failed_one() {
        let busy = Error::Unavailable(Retry { message: "busy".into(), after_ms: None });
        let params = params(&["a", "own", "b"]);
        for (from, expected) in [(0, Some(("a", 1))), (1, Some(("b", 3))), (3, None), (9, None)] {
            let expected = expected.map(|(model, next)| (model.to_owned(), at(next)));
            assert_eq!(next(&params, &busy, at(from)), expected, "{from}");
        }
    }

    #[test]
    fn fallback_stops_only_for_an_invalid_request() {
        let text = || "no".to_owned();
        for (error, goes_on) in [
            (Error::Invalid(text()), false),
            (Error::Denied(text()), true),
            (Error::NotFound(text()), true),
            (Error::TooLarge(text()), true),
            (Error::Exhausted(text()), true),
            (Error::Timeout(text()), true),
            (Error::Other(text()), true),
            (Error::RateLimited(Retry { message: text(), after_ms: None }), true),
        ] {
            assert_eq!(next(&params(&["a"]), &error, at(0)).is_some(), goes_on, "{error:?}");
        }
    }

    #[test]
    fn fallback_state_round_trips_and_ignores_invalid_bytes() {
        assert_eq!(State::decode(&at(3).encode(), "x"), at(3));
        for bytes in [&[][..], &[VERSION], &[2, 1, b'a'], &[VERSION, 1, 0xff]] {
            assert_eq!(State::decode(bytes, "own"), at(0), "{bytes:?}");
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        for (models, says) in [
            (&[][..], "has 0 names"),
            (&["a", "b", "c", "d", "e", "f", "g", "h", "i"], "has 9 names"),
            (&["a", "b", "a"], "`a` twice"),
            (&["a", ""], "an empty name"),
        ] {
            let error = params(models).check().err().unwrap();
            assert!(error.message().contains(says), "{error:?}");
        }
    }
}
