//! The choice of the traces to export, and random identities.

use shelly_core::event::SpanContext;

/// Returns random bytes, never all zero, which would be no identity. Without a source of randomness they are all one.
pub(crate) fn random_id<const N: usize>() -> [u8; N] {
    let mut id = [0; N];
    let filled = getrandom::fill(&mut id);
    if filled.is_err() || id == [0; N] { [1; N] } else { id }
}

/// The choice of the traces to export. Metrics and logs are exported in any case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceSampler {
    /// `true` if a trace that began outside of this program is exported exactly if it is exported there.
    pub follows_parent: bool,
    /// The share of all other traces that is exported, from 0 to 1.
    pub ratio: f64,
}

impl Default for TraceSampler {
    fn default() -> Self {
        Self { follows_parent: true, ratio: 1.0 }
    }
}

impl TraceSampler {
    /// Parses the name of a sampler, as in `OTEL_TRACES_SAMPLER`, with its argument.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong.
    pub fn parse(name: &str, argument: Option<&str>) -> Result<Self, String> {
        let (follows_parent, own) = match name.strip_prefix("parentbased_") {
            Some(own) => (true, own),
            None => (false, name),
        };
        let ratio = match own {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => {
                let ratio = argument.map_or(Ok(1.0), str::parse::<f64>).ok();
                ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or("the share must be a number from 0 to 1")?
            }
            _ => {
                return Err(
                    "must be always_on, always_off or traceidratio, or one of them after parentbased_".to_owned()
                );
            }
        };
        Ok(Self { follows_parent, ratio })
    }

    /// Decides about a trace. Every program that decides by the same share about the same trace comes to the same decision.
    pub(crate) fn is_sampled(&self, trace_id: [u8; 16], parent: Option<SpanContext>) -> bool {
        if let Some(parent) = parent.filter(|_| self.follows_parent) {
            return parent.is_sampled;
        }
        let [.., a, b, c, d, e, f, g, h] = trace_id;
        let drawn = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        // Exact at both ends: a share of 1 takes all, and a share of 0 none.
        self.ratio >= 1.0 || (drawn as f64) < self.ratio * (1_u64 << 63) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampler_decides_by_parent_and_by_share() {
        let parent = |is_sampled| Some(SpanContext { trace_id: [9; 16], span_id: [9; 8], is_sampled });
        let (low, high) = ([0; 16], [0xff; 16]);
        for (name, argument, expected) in [
            ("always_on", None, [true, true, true]),
            ("always_off", None, [false, false, false]),
            ("parentbased_always_on", None, [true, true, false]),
            ("parentbased_always_off", None, [false, false, false]),
            ("traceidratio", Some("0.5"), [true, false, true]),
            ("traceidratio", Some("0"), [false, false, false]),
            ("parentbased_traceidratio", Some("1"), [true, true, false]),
        ] {
            let sampler = TraceSampler::parse(name, argument).unwrap();
            let found =
                [sampler.is_sampled(low, None), sampler.is_sampled(high, None), sampler.is_sampled(low, parent(false))];
            assert_eq!(found, expected, "{name} {argument:?}");
        }
        assert!(TraceSampler::default().is_sampled(high, parent(true)));
        for (name, argument) in [("jaeger_remote", None), ("traceidratio", Some("2")), ("traceidratio", Some("x"))] {
            assert!(TraceSampler::parse(name, argument).is_err(), "{name} {argument:?}");
        }
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(random_id::<16>(), random_id::<16>());
    }
}
