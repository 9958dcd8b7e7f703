use std::sync::Arc;

use crate::chat::ToolHints;

/// A resource that calls of several tools may touch, so that the order of these calls matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConcurrencyDomain {
    /// The files of this machine: those of the project, and all others.
    Files,
    /// The state that one server, plugin or toolbox keeps, by its name.
    Named(Arc<str>),
}

impl ConcurrencyDomain {
    /// Returns the domain of the state that is kept under this name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self::Named(name.into())
    }
}

/// The way in which calls of a tool may run beside the other calls of one reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolConcurrency {
    /// The call touches nothing that another call could touch, or waits for something outside this reply. It runs beside
    /// all others.
    Independent,
    /// The call touches these domains and nothing else. Calls that only read a domain run side by side.
    Touches {
        /// The domains that it reads.
        reads: Arc<[ConcurrencyDomain]>,
        /// The domains that it may change.
        changes: Arc<[ConcurrencyDomain]>,
    },
    /// The call waits until something outside changes these domains. It begins after the earlier calls that change them,
    /// and no call waits for it.
    Watches(Arc<[ConcurrencyDomain]>),
    /// The call runs other agents, whose tools may touch anything. It runs beside other delegations.
    Delegation {
        /// The conversation that the calls share, if they do: then they run one after the other.
        conversation: Option<Arc<str>>,
    },
    /// The call could touch anything.
    Anything {
        /// Set if it may change what it touches.
        changes: bool,
    },
}

impl ToolConcurrency {
    /// Returns the concurrency of a tool with these hints that touches these domains. A tool without the read-only hint
    /// counts as changing them. Without a domain it is independent.
    pub fn touching(hints: ToolHints, domains: impl Into<Arc<[ConcurrencyDomain]>>) -> Self {
        let (domains, none) = (domains.into(), Arc::from([]));
        match (domains.is_empty(), hints.read_only) {
            (true, _) => Self::Independent,
            (false, true) => Self::Touches { reads: domains, changes: none },
            (false, false) => Self::Touches { reads: none, changes: domains },
        }
    }

    /// Returns `true` if this call begins only after the call `earlier`, which precedes it in the same reply, has ended.
    ///
    /// A delegation does not wait for calls that only read: waiting would keep agents that come after such a call from
    /// working beside those that come before it.
    pub fn waits_for(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Independent, _) | (_, Self::Independent | Self::Watches(_)) => false,
            (Self::Watches(reads), Self::Touches { changes, .. }) => meet(reads, changes),
            (Self::Delegation { conversation: Some(one) }, Self::Delegation { conversation: Some(other) }) => {
                one == other
            }
            (Self::Delegation { .. }, Self::Delegation { .. }) => false,
            (Self::Delegation { .. }, earlier) => earlier.may_change(),
            (Self::Touches { reads, changes }, Self::Touches { reads: earlier_reads, changes: earlier_changes }) => {
                meet(changes, earlier_reads) || meet(changes, earlier_changes) || meet(reads, earlier_changes)
            }
            (later, earlier) => later.may_change() || earlier.may_change(),
        }
    }

    fn may_change(&self) -> bool {
        match self {
            Self::Independent | Self::Watches(_) => false,
            Self::Touches { changes, .. } => !changes.is_empty(),
            Self::Delegation { .. } => true,
            Self::Anything { changes } => *changes,
        }
    }
}

fn meet(one: &[ConcurrencyDomain], other: &[ConcurrencyDomain]) -> bool {
    one.iter().any(|domain| other.contains(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_for_calls_they_may_depend_on() {
        let hints = |read_only| ToolHints { read_only, ..ToolHints::default() };
        let of = |read_only, domains: &[ConcurrencyDomain]| ToolConcurrency::touching(hints(read_only), domains);
        let (files, server) = (ConcurrencyDomain::Files, ConcurrencyDomain::named("mcp:memory"));
        let read_file = of(true, &[ConcurrencyDomain::Files]);
        let write_file = of(false, &[ConcurrencyDomain::Files]);
        let remember = of(false, std::slice::from_ref(&server));
        let recall = of(true, std::slice::from_ref(&server));
        let upload = ToolConcurrency::Touches { reads: [files].into(), changes: [server].into() };
        let (run, look) = (ToolConcurrency::Anything { changes: true }, ToolConcurrency::Anything { changes: false });
        let delegate = ToolConcurrency::Delegation { conversation: None };
        let talk = |to: &str| ToolConcurrency::Delegation { conversation: Some(to.into()) };
        let watch = ToolConcurrency::Watches([ConcurrencyDomain::named("mcp:memory")].into());
        let all = [&watch, &read_file, &write_file, &remember, &recall, &upload, &run, &look, &delegate, &talk("bob")];
        for one in all {
            assert!(
                !one.waits_for(&ToolConcurrency::Independent) && !ToolConcurrency::Independent.waits_for(one),
                "{one:?}"
            );
        }
        for (later, earlier, waits) in [
            (&read_file, &read_file, false),
            (&read_file, &write_file, true),
            (&write_file, &read_file, true),
            (&write_file, &write_file, true),
            (&write_file, &remember, false),
            (&recall, &remember, true),
            (&recall, &recall, false),
            (&upload, &write_file, true),
            (&write_file, &upload, true),
            (&upload, &read_file, false),
            (&recall, &upload, true),
            (&watch, &remember, true),
            (&watch, &recall, false),
            (&watch, &write_file, false),
            (&watch, &run, true),
            (&watch, &delegate, true),
            (&watch, &watch, false),
            (&remember, &watch, false),
            (&run, &watch, false),
            (&delegate, &watch, false),
            (&run, &recall, true),
            (&recall, &run, true),
            (&run, &run, true),
            (&look, &look, false),
            (&look, &read_file, false),
            (&look, &remember, true),
            (&delegate, &delegate, false),
            (&delegate, &read_file, false),
            (&delegate, &look, false),
            (&delegate, &write_file, true),
            (&delegate, &run, true),
            (&read_file, &delegate, true),
            (&write_file, &delegate, true),
            (&talk("bob"), &talk("bob"), true),
            (&talk("bob"), &talk("eve"), false),
            (&talk("bob"), &delegate, false),
            (&delegate, &talk("bob"), false),
        ] {
            assert_eq!(later.waits_for(earlier), waits, "{later:?} after {earlier:?}");
        }
        assert_eq!(
            of(false, &[]),
            ToolConcurrency::Independent,
            "a tool that reaches nothing need not say that it only reads"
        );
    }
}
