/// The amounts that are limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RateAmount {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
}

/// The limits of these amounts in a minute; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RateBounds {
    pub requests: Option<u64>,
    pub input: Option<u64>,
    pub output: Option<u64>,
}

impl RateAmount {
    pub fn with(self, other: Self, add: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            requests: add(self.requests, other.requests),
            input: add(self.input, other.input),
            output: add(self.output, other.output),
        }
    }

    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    pub fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// Returns `true` if there is room for `need` in addition. An amount of zero leaves room for anything.
    pub fn has_room(&self, need: &Self, limits: &RateBounds) -> bool {
        [
            (self.requests, need.requests, limits.requests),
            (self.input, need.input, limits.input),
            (self.output, need.output, limits.output),
        ]
        .into_iter()
        .all(|(used, need, limit)| limit.is_none_or(|limit| used == 0 || used.saturating_add(need) <= limit))
    }

    /// Returns the amounts that have a limit; the others are zero.
    pub fn limited(self, limits: &RateBounds) -> Self {
        let of = |amount: u64, limit: Option<u64>| if limit.is_some() { amount } else { 0 };
        Self {
            requests: of(self.requests, limits.requests),
            input: of(self.input, limits.input),
            output: of(self.output, limits.output),
        }
    }

    /// Returns `true` if each amount is at least that of `other`.
    pub fn covers(self, other: Self) -> bool {
        self.requests >= other.requests && self.input >= other.input && self.output >= other.output
    }
}
