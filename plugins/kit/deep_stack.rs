//! The build script of guests that go deep, such as parsers that call themselves: a stack of 1 MiB in place of the 64 KiB
//! that the builder gives. It is more than the host's own bound of the same recursion, so that this one is met first, which
//! is told in words, and not as a damaged memory.

fn main() {
    println!("cargo::rerun-if-changed=../kit/deep_stack.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=1048576");
    }
}
