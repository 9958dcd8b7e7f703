//! The build script of guests with deep recursion, such as recursive parsers. It sets a stack of 1 MiB in place of the
//! builder's 64 KiB. This stack is larger than the host's own bound on the same recursion allows, so that the host's
//! bound is reached first. The host reports it in words, while an overflow of this stack would look like damaged memory.

fn main() {
    println!("cargo::rerun-if-changed=../kit/deep_stack.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=1048576");
    }
}
