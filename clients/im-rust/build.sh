#!/bin/sh
# Builds the driver, or with --test runs the unit tests. CARGO names another cargo.
cd "$(dirname "$0")" || exit 1
cargo="${CARGO:-cargo}"
export CARGO_TARGET_DIR=target/conformance
if [ "${1:-}" = --test ]; then
    exec "$cargo" test --quiet --locked --all-features --lib
fi
exec "$cargo" build --quiet --locked --all-features --example driver
