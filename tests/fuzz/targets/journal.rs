//! See the claim. The journals lie in a folder of this process.

#![no_main]

use std::sync::LazyLock;

use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("there is room for a folder"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    claims::journal(bytes, FOLDER.path());
});
