//! What both doors are asked, and how they tell what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
pub struct FetchArgs {
    pub url: String,
    /// None: GET.
    pub method: Option<String>,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The name of a credential.
    #[allow(dead_code, reason = "only one of the doors has a word for it")]
    pub credential: Option<String>,
    pub timeout_ms: Option<u32>,
    #[serde(default)]
    pub body: String,
    /// The body is this, so often, piece by piece.
    pub pieces: Option<(String, u32)>,
    /// Drops the body before its end.
    #[serde(default)]
    pub cut: bool,
    /// Reads the reply so often at most; none: to its end.
    pub reads: Option<u32>,
    /// Waits with it, turning round so often.
    #[serde(default)]
    pub turns: u64,
    /// Bytes to look for in all of the memory, in the end: each in hexadecimal, with its lower bits turned round.
    #[serde(default)]
    pub look_for: String,
}

/// What came of it.
#[derive(Default, Serialize)]
pub struct Fetched {
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub bytes: u64,
    /// The case, and what it says.
    pub error: Option<(String, String)>,
    /// How often what was looked for is there.
    pub found: Option<usize>,
}

impl Fetched {
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        // The rest of what is long is counted alone: a model is told so much and no more, also of what is escaped.
        let room = 2_000_usize.saturating_sub(self.body.len());
        self.body.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(room)]));
    }

    pub fn looked_for(mut self, hexadecimal: &str) -> Self {
        let turned: Vec<u8> = (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        self.found = (!turned.is_empty()).then(|| occurrences(&turned));
        self
    }
}

/// How often these bytes, turned round, are anywhere in the memory of this instance.
#[cfg(target_arch = "wasm32")]
fn occurrences(turned: &[u8]) -> usize {
    let end = core::arch::wasm32::memory_size(0) * 65_536;
    let at = |address: usize| {
        // SAFETY: it lies in the memory, which is all readable; nothing else runs.
        unsafe { (address as *const u8).read_volatile() }
    };
    // From 1 on: nothing is at 0.
    (1..end - turned.len())
        .filter(|start| turned.iter().enumerate().all(|(n, byte)| at(start + n) ^ 0x0f == *byte))
        .count()
}

#[cfg(not(target_arch = "wasm32"))]
fn occurrences(_: &[u8]) -> usize {
    0
}

/// Turns round so often.
pub fn turn(turns: u64) {
    (0..turns).for_each(|turn| {
        core::hint::black_box(turn);
    });
}
