use std::{fmt, sync::Arc};

use crate::{hex, limits};

/// The header, and the key of MCP's `_meta`, that names a span to another host.
pub const TRACEPARENT: &str = "traceparent";
/// The header, and the key of MCP's `_meta`, with the values that vendors of telemetry add to it.
pub const TRACESTATE: &str = "tracestate";

/// The identity of a span, which its children and its log records name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span in it.
    pub span_id: [u8; 8],
    /// `true` if the trace is exported.
    pub is_sampled: bool,
}

impl SpanContext {
    /// Parses a `traceparent` of the W3C Trace Context, such as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`;
    /// `None` for any other text. Of a later version than `00`, the parts that this one has are used.
    pub fn from_traceparent(text: &str) -> Option<Self> {
        if text.len() > limits::TRACEPARENT_BYTES {
            return None;
        }
        let mut parts = text.trim().split('-');
        let [version, trace_id, span_id, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let [version] = hex::decode_lower::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace_id, span_id) = (hex::decode_lower(trace_id)?, hex::decode_lower(span_id)?);
        let [flags] = hex::decode_lower::<1>(flags)?;
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for SpanContext {
    /// Writes the `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, span_id) = (hex::encode(self.trace_id), hex::encode(self.span_id));
        write!(f, "00-{trace_id}-{span_id}-{:02x}", u8::from(self.is_sampled))
    }
}

/// A span as one host names it to another: the W3C Trace Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropagatedSpan {
    /// The span.
    pub context: SpanContext,
    /// The values of vendors of telemetry, which are passed on as they came.
    pub state: Option<Arc<str>>,
}

impl PropagatedSpan {
    /// Parses the values of a request; `None` if there is no valid `traceparent`. A `tracestate` that is longer than
    /// [`limits::TRACESTATE_BYTES`], or has other characters than visible ASCII ones and spaces, is left out.
    pub fn parse(traceparent: Option<&str>, tracestate: Option<&str>) -> Option<Self> {
        let context = SpanContext::from_traceparent(traceparent?)?;
        let is_valid = |state: &&str| {
            let is_shown = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            !state.is_empty() && state.len() <= limits::TRACESTATE_BYTES && state.bytes().all(is_shown)
        };
        Some(Self { context, state: tracestate.map(str::trim).filter(is_valid).map(Arc::from) })
    }

    /// Returns the headers that name the span.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let state = self.state.as_ref().map(|state| (TRACESTATE, state.to_string()));
        [(TRACEPARENT, self.context.to_string())].into_iter().chain(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn traceparent_is_parsed_and_others_are_refused() {
        let context = SpanContext::from_traceparent(GOOD).unwrap();
        assert_eq!(hex::encode(context.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(hex::encode(context.span_id), "00f067aa0ba902b7");
        assert!(context.is_sampled);
        assert_eq!(context.to_string(), GOOD);
        let unsampled = GOOD.replace("-01", "-00");
        let other = SpanContext::from_traceparent(&unsampled).unwrap();
        assert!(!other.is_sampled && other.to_string() == unsampled);
        let later = GOOD.replacen("00-", "01-", 1);
        assert_eq!(SpanContext::from_traceparent(&format!("{later}-more")), Some(context), "a later version");
        for bad in [
            "",
            "00",
            &GOOD.replacen("00-", "ff-", 1),
            &format!("{GOOD}-more"),
            &format!("{later}-{}", "x".repeat(limits::TRACEPARENT_BYTES - later.len())),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &GOOD.replace("00f067aa0ba902b7", "00f067"),
        ] {
            assert_eq!(SpanContext::from_traceparent(bad), None, "{bad}");
        }
    }

    #[test]
    fn tracestate_is_passed_on_unless_it_cannot_be() {
        let headers = |state: Option<&str>| {
            let span = PropagatedSpan::parse(Some(GOOD), state).unwrap();
            span.headers().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
        };
        let parent = format!("traceparent: {GOOD}");
        assert_eq!(headers(Some("a=1, b=2 ")), [parent.clone(), "tracestate: a=1, b=2".into()]);
        let longest = format!("a={}", "x".repeat(limits::TRACESTATE_BYTES - 2));
        assert_eq!(headers(Some(&longest)).len(), 2);
        for bad in [None, Some(""), Some("a=1\r\nx: y"), Some("a=é"), Some(&*format!("{longest}x"))] {
            assert_eq!(headers(bad), std::slice::from_ref(&parent), "{bad:?}");
        }
        assert_eq!(PropagatedSpan::parse(None, Some("a=1")), None);
        assert_eq!(PropagatedSpan::parse(Some("00-1-2-3"), Some("a=1")), None);
    }
}
