#!/usr/bin/env bash
# Makes the Rust target wasm32-unknown-unknown, with the whole of std, usable for cargo.
#
#   wasm-toolchain.sh [DIR]            prepare it; DIR defaults to target/wasm-toolchain
#   wasm-toolchain.sh --which [DIR]    only print which route would be taken, first choice first;
#                                      no network, no change
#
# There are two routes. SHELLY_WASM_ROUTE=rustup|debian|auto forces one; auto, the default, takes the first that works.
#
#   rustup   The active toolchain has the target, or `rustup target add` fetches it. That adds the target to the
#            active toolchain, for all its users.
#   debian   Debian's rustc-web and the sources of its std are unpacked into DIR and std is compiled there, once. Needs
#            no root and changes nothing outside DIR but cargo's cache of downloaded crates.
#
# Either way DIR/env.sh then holds the variables that cargo must be called with, one `export NAME='value'` a line; no
# value contains a quote. Running this again is cheap and needs no network.
set -euo pipefail

readonly TARGET=wasm32-unknown-unknown
# The oldest rustc that compiles the guests: the `rust-version` of the workspace (a test compares the two).
readonly MIN_RUST=1.95
# Raise it when a folder that an earlier version of this script made will no longer do.
readonly RECIPE=1
readonly RUSTUP_TIMEOUT=120 # seconds

main() {
    local which=false
    case ${1:-} in
        -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "$0"; exit 0 ;;
        --which) which=true; shift ;;
        -*) fail "unknown option $1" "this script takes --which, --help and a folder" "run it with --help" ;;
    esac
    ROUTE=${SHELLY_WASM_ROUTE:-auto}
    case $ROUTE in
        auto | rustup | debian) ;;
        *) fail "SHELLY_WASM_ROUTE=$ROUTE is not a route" "" "set it to rustup, debian or auto" ;;
    esac

    forget_outer_cargo
    look_around
    DIR=$(absolute "${1:-target/wasm-toolchain}")
    case $DIR in
        *[\'\"\\]* | *$'\n'*) fail "cannot work in $DIR" "its path contains a quote, backslash or newline" "choose another folder" ;;
    esac

    if $which; then print_routes; exit 0; fi

    mkdir -p "$DIR" || fail "cannot create $DIR" "" "choose a folder that can be written to"
    lock
    take_route
}

# --- messages ---------------------------------------------------------------------------------------------------------

log() { printf 'wasm-toolchain: %s\n' "$*" >&2; }

# fail WHAT CAUSE HINT: an empty cause or hint is left out.
fail() {
    log "error: $1"
    [ -z "$2" ] || printf '  cause: %s\n' "$2" >&2
    [ -z "$3" ] || printf '  hint:  %s\n' "$3" >&2
    exit 1
}

# The end of a log file, indented, so that the message needs no second look at the machine it was printed on.
show_log() { [ ! -s "$1" ] || tail -n "${2:-8}" "$1" | sed 's/^/  | /' >&2; }

# --- what this machine has (no network, no change) --------------------------------------------------------------------

# A cargo that runs this from a build script sets variables for its own target and compiler. They are not meant for us.
forget_outer_cargo() {
    local name
    for name in $(compgen -e); do
        case $name in
            RUSTC | RUSTC_* | RUSTFLAGS | RUSTDOC* | CARGO_ENCODED_* | CARGO_INCREMENTAL | CARGO_BUILD_* | CARGO_TARGET_* | \
                CARGO_PROFILE_* | CARGO_UNSTABLE_*)
                unset "$name" ;;
        esac
    done
}

absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s/%s' "$PWD" "$1" ;; esac; }

look_around() {
    local tool
    for tool in cargo rustc; do
        command -v "$tool" >/dev/null ||
            fail "no $tool on PATH" "guests are built with cargo and rustc" "install Rust $MIN_RUST or newer"
    done
    RUSTC_VERSION=$(rustc -vV) || fail "rustc does not start" "see its message above" "repair the Rust toolchain"
    HOST=$(sed -n 's/^host: //p' <<<"$RUSTC_VERSION")
    RUSTC_VERSION=${RUSTC_VERSION%%$'\n'*}
    SYSROOT=$(rustc --print sysroot)
    HOST_BIN=$SYSROOT/lib/rustlib/$HOST/bin
    # It calls wasm-ld and wraps the module as a component, so that cargo needs no second step.
    LINKER=$HOST_BIN/wasm-component-ld
    [ -x "$LINKER" ] || LINKER=$(command -v wasm-component-ld || true)
}

has_std() { compgen -G "$1/lib/rustlib/$TARGET/lib/libstd-*.rlib" >/dev/null; }

# Whether `rustup target add` would serve the rustc that is in use, not another one.
rustup_owns_rustc() { [ "$(rustup which rustc 2>/dev/null)" = "$SYSROOT/bin/rustc" ]; }

# Why the Debian route cannot be taken here; nothing if it can.
debian_obstacle() {
    local tool architecture
    if [ "$HOST" != x86_64-unknown-linux-gnu ]; then
        echo "it is made for x86_64-unknown-linux-gnu, this is $HOST"; return
    fi
    for tool in apt-get apt-cache dpkg dpkg-deb cc; do
        command -v "$tool" >/dev/null || { echo "it needs $tool, which is not on PATH"; return; }
    done
    architecture=$(dpkg --print-architecture)
    [ "$architecture" = amd64 ] || { echo "it is made for Debian's amd64, this is $architecture"; return; }
    [ -x "$HOST_BIN/rust-lld" ] || echo "the Rust toolchain has no rust-lld in $HOST_BIN"
}

# The version of Debian's rustc-web that is unpacked and has a compiled std in DIR; nothing if there is none, it is too
# old or another recipe made it.
debian_made() {
    local recipe='' version=''
    [ -f "$DIR/debian/made" ] || return 0
    read -r recipe version <"$DIR/debian/made" || return 0
    if [ "$recipe" = "$RECIPE" ] && new_enough "$version" && [ -x "$DIR/debian/rustc" ] && has_std "$DIR/debian/usr"; then
        printf '%s' "$version"
    fi
}

# A version of rustc-web that the system's package lists know and that is newer than $1; nothing if none is. One that
# could not be had is not tried again for a day.
debian_newer_than() {
    local known
    known=$(apt-cache policy rustc-web 2>/dev/null | sed -n 's/^  Candidate: //p') || return 0
    [ -n "$known" ] && [ "$known" != "(none)" ] && dpkg --compare-versions "$known" gt "$1" || return 0
    if [ -n "$(find "$DIR/refused" -mmin -1440 2>/dev/null)" ] && [ "$(<"$DIR/refused")" = "$known" ]; then return; fi
    printf '%s' "$known"
}

new_enough() { [ -n "$1" ] && dpkg --compare-versions "$1" ge "$MIN_RUST"; }

# --- which route ------------------------------------------------------------------------------------------------------

# The routes to try, in order, as `<route> <state>`. The one place where this is decided.
routes() {
    local obstacle=""
    if [ "$ROUTE" != debian ] && has_std "$SYSROOT"; then echo "rustup installed"; return; fi
    if [ "$ROUTE" != rustup ]; then
        obstacle=$(debian_obstacle)
        # What is made already needs no network, so it goes before a download.
        if [ -z "$obstacle" ] && [ -n "$(debian_made)" ]; then echo "debian made"; return; fi
    fi
    if [ "$ROUTE" != debian ] && command -v rustup >/dev/null && rustup_owns_rustc; then echo "rustup add"; fi
    if [ "$ROUTE" != rustup ] && [ -z "$obstacle" ]; then echo "debian make"; fi
}

print_routes() {
    local list
    list=$(routes)
    [ -n "$list" ] || no_route
    printf '%s\n' "$list"
}

take_route() {
    local list route state
    [ -n "$LINKER" ] || fail "no wasm-component-ld" \
        "it is neither in $HOST_BIN nor on PATH" \
        "use a Rust toolchain from rustup, or run \`cargo install wasm-component-ld\`"
    list=$(routes)
    # Not from standard input, which the tools that are called could read empty.
    while read -r route state <&3; do
        case "$route $state" in
            "rustup installed") finish_rustup ;;
            "rustup add") ! add_target || finish_rustup ;;
            "debian made" | "debian make") take_debian ;;
        esac
    done 3<<<"$list"
    no_route
}

no_route() {
    local why="" obstacle
    if [ "$ROUTE" != debian ]; then
        if ! command -v rustup >/dev/null; then
            why="rustup is not on PATH"
        elif ! rustup_owns_rustc; then
            why="rustup does not manage the rustc that is in use"
        else
            why="rustup could not fetch the target"
        fi
    fi
    if [ "$ROUTE" != rustup ]; then
        obstacle=$(debian_obstacle)
        why="${why:+$why; }the Debian route is closed: ${obstacle:-see above}"
    fi
    fail "no route to the Rust target $TARGET (SHELLY_WASM_ROUTE=$ROUTE)" "$why" \
        "run \`rustup target add $TARGET\` where rustup has network, or install your system's package of that target's std"
}

# --- route rustup -----------------------------------------------------------------------------------------------------

add_target() {
    local limit=""
    ! command -v timeout >/dev/null || limit="timeout $RUSTUP_TIMEOUT"
    log "adding $TARGET with rustup"
    # shellcheck disable=SC2086  # two words
    if $limit rustup target add "$TARGET" >"$DIR/rustup.log" 2>&1 </dev/null 9>&- && has_std "$SYSROOT"; then return 0; fi
    log "rustup could not add $TARGET; it said (or ran longer than $RUSTUP_TIMEOUT s):"
    show_log "$DIR/rustup.log" 4
    return 1
}

finish_rustup() {
    write_env ""
    prove "$RECIPE rustup; $RUSTC_VERSION; $SYSROOT; $LINKER" "$RUSTC_VERSION"
    exit 0
}

# --- route debian -----------------------------------------------------------------------------------------------------

take_debian() {
    local have newer
    have=$(debian_made)
    newer=""
    [ -z "$have" ] || newer=$(debian_newer_than "$have")
    if [ -z "$have" ]; then
        (make_debian) || exit 1
    elif [ -n "$newer" ]; then
        log "Debian has rustc-web $newer, newer than $have"
        if ! (make_debian); then
            log "going on with $have"
            printf '%s\n' "$newer" >"$DIR/refused"
        fi
    fi
    # Again at every run, because the Rust toolchain whose linker it borrows may be another one by now.
    mkdir -p "$DIR/debian/usr/lib/rustlib/$HOST/bin"
    ln -sfn "$HOST_BIN/rust-lld" "$DIR/debian/usr/lib/rustlib/$HOST/bin/rust-lld"
    have=$(debian_made)
    [ -n "$have" ] ||
        fail "the unpacked rustc-web is not usable" "its files in $DIR/debian are incomplete" "remove $DIR and run this again"
    write_env "$DIR/debian/rustc"
    prove "$RECIPE debian; rustc-web $have; $SYSROOT; $LINKER" "Debian's rustc-web $have"
    exit 0
}

# Runs in a subshell, so that `fail` ends it and not the script: with an older toolchain in DIR there is a way on.
# It works in DIR/debian.new, so that a run that breaks off leaves no half of a toolchain behind.
make_debian() {
    local new=$DIR/debian.new version
    rm -rf "$new"
    mkdir -p "$new" "$DIR/debs" || fail "cannot write to $DIR" "" "choose another folder"
    download_debs
    version=$(sed -n 's/^rustc-web=//p' "$DIR/wanted")

    log "unpacking rustc-web $version"
    unpack_debs "$new" ||
        fail "cannot unpack Debian's packages" "see above; is the disk full?" "free about 1 GB and run this again"
    write_rustc_wrapper "$new/rustc"
    "$new/rustc" -V >/dev/null || fail "the unpacked rustc does not start" "its message is above" "use the rustup route"
    mkdir -p "$new/usr/lib/rustlib/$HOST/bin"
    ln -sfn "$HOST_BIN/rust-lld" "$new/usr/lib/rustlib/$HOST/bin/rust-lld"

    log "compiling std for $TARGET, once"
    compile_std "$new"

    printf '%s %s\n' "$RECIPE" "$version" >"$new/made"
    rm -rf "$DIR/debian" "$DIR/refused" "$DIR/debs" "$DIR/apt" "$DIR/wanted"
    mv "$new" "$DIR/debian"
}

# Package lists of the system first; if they are empty, outdated or too old, private ones, which need no root.
download_debs() {
    APT=(-o Acquire::http::Timeout=30 -o Acquire::Retries=2)
    # As root, apt downloads as a user that may not write to our folder, and warns.
    [ "$(id -u)" != 0 ] || APT+=(-o APT::Sandbox::User=root)
    if list_debs 2>"$DIR/apt.log" && announce && fetch_debs 2>>"$DIR/apt.log"; then return; fi

    mkdir -p "$DIR/apt/lists/partial" "$DIR/apt/cache/archives/partial"
    APT+=(-o "Dir::State::lists=$DIR/apt/lists" -o "Dir::Cache=$DIR/apt/cache" -o Debug::NoLocking=1)
    log "fetching Debian's package lists"
    if ! apt-get "${APT[@]}" -qq update >"$DIR/apt.log" 2>&1; then
        show_log "$DIR/apt.log"
        fail "cannot fetch Debian's package lists" "apt-get update failed, see above" "is there network? Otherwise run this once where there is"
    fi
    if ! list_debs 2>>"$DIR/apt.log"; then
        show_log "$DIR/apt.log"
        fail "no rustc-web of Rust $MIN_RUST or newer" \
            "apt offers $(apt-cache "${APT[@]}" policy rustc-web 2>/dev/null | sed -n 's/^  Candidate: //p' | grep . || echo "no such package"); is this Debian, with its security updates among the sources?" \
            "use the rustup route: \`rustup target add $TARGET\`"
    fi
    announce
    if ! fetch_debs 2>>"$DIR/apt.log"; then
        show_log "$DIR/apt.log"
        fail "cannot download Debian's packages" "apt-get download failed, see above" "is there network? Otherwise run this once where there is"
    fi
}

# Writes DIR/wanted, `package=version` a line; fails if rustc-web is missing there or too old.
list_debs() {
    local install=(apt-get "${APT[@]}" install --simulate --no-install-recommends rustc-web rust-web-src libstd-rust-web-dev)
    {
        # What the system lacks. Never what it has in another version (`[old]` in the third field): a second libc does harm.
        LC_ALL=C "${install[@]}" | awk '$1 == "Inst" && $3 ~ /^\(/ { print $2 "=" substr($3, 2) }' || true
        # The compiler itself even if the system has it, because rustc finds its std relative to its own library.
        LC_ALL=C "${install[@]}" -o Dir::State::status=/dev/null |
            awk '$1 == "Inst" && $2 ~ /^(rustc-web|rust-web-src|libstd-rust-web-.*|libllvm[0-9]+)$/ { print $2 "=" substr($3, 2) }' || true
    } | sort -u >"$DIR/wanted"
    new_enough "$(sed -n 's/^rustc-web=//p' "$DIR/wanted")"
}

announce() { log "downloading rustc-web $(sed -n 's/^rustc-web=//p' "$DIR/wanted") and what it needs from Debian, about 100 MB"; }

fetch_debs() {
    local wanted
    wanted=$(<"$DIR/wanted")
    # What an earlier run has downloaded and checked is not fetched again.
    # shellcheck disable=SC2086  # one word a package
    (cd "$DIR/debs" && apt-get "${APT[@]}" -qq download $wanted >&2)
}

unpack_debs() {
    local package version deb
    while IFS='=' read -r package version; do
        # apt writes the colon of an epoch as %3a.
        deb=$(compgen -G "$DIR/debs/${package%%:*}_${version//:/%3a}_*.deb" | head -n 1) || { log "no file of $package=$version"; return 1; }
        # Of the compiler's sources only std; no documentation.
        case $package in
            rust-web-src) dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1" --wildcards './usr/lib/rustlib/*' './usr/src/rustc-*/library' || return 1 ;;
            *) dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1" --exclude='./usr/share' --exclude='./usr/libexec' || return 1 ;;
        esac
    done <"$DIR/wanted"
}

# The unpacked rustc finds its libraries only if it is told where they are.
write_rustc_wrapper() {
    cat >"$1" <<'SH'
#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
LD_LIBRARY_PATH=$here/usr/lib/x86_64-linux-gnu:$here/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/usr/bin/rustc" "$@"
SH
    chmod +x "$1"
}

compile_std() {
    local new=$1 std=$1/std libs=$1/usr/lib/rustlib/$TARGET/lib
    mkdir -p "$std/src" "$libs"
    cat >"$std/Cargo.toml" <<'TOML'
[package]
name = "std-for-wasm"
version = "0.0.0"
edition = "2024"

[workspace]

[profile.release]
opt-level = "s"
panic = "abort"
codegen-units = 1
TOML
    echo '#![no_std]' >"$std/src/lib.rs"
    # RUSTC_BOOTSTRAP because -Zbuild-std is unstable; bitcode because guests are linked with LTO.
    if ! (cd "$std" && RUSTC_BOOTSTRAP=1 RUSTC=$new/rustc RUSTC_WRAPPER='' RUSTFLAGS=-Cembed-bitcode=yes \
        cargo build --quiet --release -Zbuild-std=std,panic_abort --target "$TARGET" --target-dir "$std/target" \
        >"$DIR/std.log" 2>&1 </dev/null 9>&-); then
        show_log "$DIR/std.log" 20
        fail "cannot compile std for $TARGET" "cargo's message is above; the crates that std needs come from the crate registry" \
            "is there network? Otherwise run this once where there is"
    fi
    cp "$std/target/$TARGET/release/deps/"*.rlib "$libs" ||
        fail "cannot copy std" "see above; is the disk full?" "free some space and run this again"
    rm -f "$libs"/libstd_for_wasm-*
    rm -rf "$std" "$new/usr/src" "$new/usr/lib/rustlib/src"
}

# --- both routes ------------------------------------------------------------------------------------------------------

# One preparation of DIR at a time; the others wait and then find it done.
lock() {
    command -v flock >/dev/null || return 0
    exec 9>"$DIR/.lock"
    flock -n 9 || { log "waiting for another run in $DIR"; flock 9; }
}

write_env() { # the rustc to use, or nothing
    case $1$LINKER in *[\'\"\\]*) fail "cannot use $LINKER" "its path contains a quote or backslash" "install Rust in another folder" ;; esac
    {
        echo "# Written by wasm-toolchain.sh: what cargo must be called with to build for $TARGET."
        [ -z "$1" ] || printf "export RUSTC='%s'\n" "$1"
        printf "export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER='%s'\n" "$LINKER"
    } >"$DIR/env.sh.new"
    # An unchanged file keeps its time, for those who watch it.
    if cmp -s "$DIR/env.sh.new" "$DIR/env.sh"; then rm "$DIR/env.sh.new"; else mv "$DIR/env.sh.new" "$DIR/env.sh"; fi
}

# Builds one module with what env.sh says, once for every combination (the stamp) of rustc, std and linker.
prove() { # stamp, name for the reader
    if [ -f "$DIR/stamp" ] && [ "$(<"$DIR/stamp")" = "$1" ]; then log "$2 is ready in $DIR"; return; fi
    if ! smoke_test >"$DIR/smoke.log" 2>&1; then
        show_log "$DIR/smoke.log" 20
        fail "$2 does not build a module for $TARGET" "its message is above; rustc, std and wasm-component-ld do not fit together" \
            "remove $DIR and run this again, or choose the other route with SHELLY_WASM_ROUTE"
    fi
    printf '%s\n' "$1" >"$DIR/stamp"
    log "$2 is ready in $DIR"
}

smoke_test() (
    dir=$DIR/smoke
    rm -rf "$dir"
    mkdir -p "$dir"
    cat >"$dir/smoke.rs" <<'RS'
use std::collections::HashMap;

#[unsafe(no_mangle)]
pub extern "C" fn smoke(n: u32) -> u32 {
    (0..n).map(|i| (format!("{i}"), i)).collect::<HashMap<_, _>>().values().sum()
}
RS
    # shellcheck disable=SC1091
    . "$DIR/env.sh"
    # A plain module: there is no component type in this source for the linker to wrap it with.
    "${RUSTC:-rustc}" --edition 2024 --crate-type cdylib --target "$TARGET" -Copt-level=s -Clto -Cpanic=abort -Cstrip=symbols \
        "-Clinker=$CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER" -Clink-arg=--skip-wit-component \
        -o "$dir/smoke.wasm" "$dir/smoke.rs" || exit 1
    [ "$(head -c 4 "$dir/smoke.wasm" | od -An -tx1 | tr -d ' \n')" = 0061736d ] || { echo "its output is no WebAssembly"; exit 1; }
    rm -rf "$dir"
)

main "$@"
