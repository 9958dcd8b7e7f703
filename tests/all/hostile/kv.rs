//! Invalid keys and values, and more of them than a store holds.

use std::sync::Arc;

use shelly_host::plugin::Limits;

use super::{
    ATTACK, House, call, engine,
    guest::{self, Guest, SCRATCH, ZEROS, times},
    pack,
};

/// Cases of `error`.
const INVALID: u32 = 0;
const TOO_LARGE: u32 = 3;
const EXHAUSTED: u32 = 4;

/// Traps unless the call came to this: well, or a case of `error`.
fn must_be(expected: Option<u32>) -> String {
    let failed = u32::from(expected.is_some());
    let case = expected.map_or(String::new(), |case| {
        format!("(if (i32.ne (i32.load8_u offset=8 (i32.const {SCRATCH})) (i32.const {case})) (then unreachable))")
    });
    format!("(if (i32.ne (i32.load8_u (i32.const {SCRATCH})) (i32.const {failed})) (then unreachable)) {case}")
}

/// Writes so many zero bytes under a key of so many zero bytes.
fn set(key: u32, value: u32) -> String {
    format!(
        "(call $set (i32.const {ZEROS}) (i32.const {key}) (i32.const 1) (i32.const {ZEROS}) (i32.const {value})
           (i32.const {SCRATCH}))"
    )
}

fn get(key: u32) -> String {
    format!("(call $get (i32.const {ZEROS}) (i32.const {key}) (i32.const {SCRATCH}))")
}

fn keys(prefix: u32) -> String {
    format!(
        "(call $keys (i32.const {ZEROS}) (i32.const {prefix}) (i32.const 0) (i32.const 0) (i32.const 0)
           (i32.const {SCRATCH}))"
    )
}

#[tokio::test]
async fn kv_key_and_value_limits_match_the_contract() {
    const MIB: u32 = 1 << 20;
    for (what, does, expected) in [
        ("an empty key", set(0, 1), Some(INVALID)),
        ("no key to read", get(0), Some(INVALID)),
        ("a key that is too long", set(513, 1), Some(INVALID)),
        ("a key that is too long to read", get(513), Some(INVALID)),
        ("a prefix that no key can have", keys(513), Some(INVALID)),
        ("the longest key, of zero bytes", set(512, 1), None),
        ("the longest prefix", keys(512), None),
        ("no prefix", keys(0), None),
        ("the largest value", set(1, MIB), None),
        ("a value that is too large", set(1, MIB + 1), Some(TOO_LARGE)),
    ] {
        let guest = Guest::tool().pages(96).import(guest::KV).attack(&format!("{does} {}", must_be(expected)));
        let plugin = pack(&["tool"], "wants = { kv = true }", &guest.component()).load(engine()).await.unwrap();
        let result = call(&plugin, "t", ATTACK).await;
        assert_eq!((result.is_error, result.text().as_str()), (false, "ok"), "{what}");
    }
}

#[tokio::test]
async fn kv_store_is_full_at_64_mib() {
    // Keys of one zero byte, of two, and so on.
    let next = format!(
        "(local.set $x (i32.add (local.get $x) (i32.const 1)))
         (call $set (i32.const {ZEROS}) (local.get $x) (i32.const 1) (i32.const {ZEROS}) (i32.const {})
           (i32.const {SCRATCH}))",
        1 << 20
    );
    let body = format!(
        "{} {} {next} {}",
        times(63, &format!("{next} {}", must_be(None))),
        must_be(None),
        must_be(Some(EXHAUSTED))
    );
    let guest = Guest::tool().pages(96).import(guest::KV).attack(&body);
    // One call hands over less than a store holds, if its limits are not raised.
    let limits = Limits { output_bytes: 65 << 20, ..Limits::default() };
    let house = House { engine: Arc::clone(engine()), limits };
    let plugin = pack(&["tool"], "wants = { kv = true }", &guest.component()).load(&house).await.unwrap();
    let result = call(&plugin, "t", ATTACK).await;
    assert_eq!((result.is_error, result.text().as_str()), (false, "ok"));
    let plugin = pack(&["tool"], "wants = { kv = true }", &guest.component()).load(engine()).await.unwrap();
    let result = call(&plugin, "t", ATTACK).await;
    assert!(result.is_error && !result.text().contains("unreachable"), "{}", result.text());
}

#[tokio::test]
async fn invalid_utf8_kv_key_fails_only_its_call() {
    let mut guest = Guest::tool().import(guest::KV);
    let bytes = guest.image().words(&[0xffff_ffff]);
    let body = format!("(call $get (i32.const {bytes}) (i32.const 4) (i32.const {SCRATCH}))");
    let plugin = pack(&["tool"], "wants = { kv = true }", &guest.attack(&body).component());
    let plugin = plugin.load(engine()).await.unwrap();
    assert!(call(&plugin, "t", ATTACK).await.is_error);
    assert!(!call(&plugin, "t", "{}").await.is_error);
}

#[tokio::test]
async fn kv_store_is_unavailable_during_the_probe() {
    let guest = Guest::tool().import(guest::KV).on("specs", &set(1, 1));
    let refused = pack(&["tool"], "wants = { kv = true }", &guest.component()).load(engine()).await.err().unwrap();
    assert!(refused.contains("failed at load"), "{refused}");
}
