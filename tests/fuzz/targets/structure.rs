//! See the claim.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    claims::structure(bytes);
});
