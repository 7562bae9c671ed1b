#!/bin/sh
# Says in one line what is missing to build Holdline, or nothing.
#
#   scripts/toolchain.sh        exits 0 when cargo is new enough and a C compiler is there
#
# The oldest Rust that will do stands in Cargo.toml (rust-version) and nowhere else. Only builtins
# of the shell are used: this has to work on a machine that has nothing yet.
set -u

fail() {
    echo "holdline: $1" >&2
    exit 1
}

manifest="${0%/*}/../Cargo.toml"
wanted=""
while read -r key _ value _; do
    if [ "$key" = "rust-version" ]; then
        wanted="${value%\"}"
        wanted="${wanted#\"}"
        break
    fi
done <"$manifest"
[ -n "$wanted" ] || fail "no rust-version in $manifest"

if ! command -v cargo >/dev/null 2>&1; then
    if [ -x "${HOME:-/nonexistent}/.cargo/bin/cargo" ]; then
        fail "Rust is installed but not in PATH: run '. \"\$HOME/.cargo/env\"' and try again"
    fi
    fail "Rust $wanted or newer is needed and none was found: install rustup (Debian 13, Ubuntu 24.04: apt-get install rustup) and run 'rustup default stable'"
fi

# A cargo that is only rustup's stand-in fails here when no toolchain is set.
words="$(cargo --version 2>/dev/null)" || words=""
found="${words#cargo }"
found="${found%% *}"
release="${found%%-*}"
major="${release%%.*}"
rest="${release#*.}"
minor="${rest%%.*}"
case "$major.$minor" in
*[!0-9.]* | .* | *.) fail "Rust $wanted or newer is needed and cargo does not start: run 'rustup default stable'" ;;
esac

if [ "$major" -lt "${wanted%%.*}" ] ||
    { [ "$major" -eq "${wanted%%.*}" ] && [ "$minor" -lt "${wanted#*.}" ]; }; then
    if command -v rustup >/dev/null 2>&1; then
        fail "Rust $wanted or newer is needed and this is $found: run 'rustup update stable'"
    fi
    fail "Rust $wanted or newer is needed and this is $found: install rustup (Debian 13, Ubuntu 24.04: apt-get install rustup) and run 'rustup default stable'"
fi

command -v cc >/dev/null 2>&1 ||
    fail "a C compiler is needed to link: install gcc (on Debian and Ubuntu: apt-get install gcc libc6-dev)"
