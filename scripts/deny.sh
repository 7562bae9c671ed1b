#!/usr/bin/env bash
# Holds the dependencies against deny.toml: licences, bans, sources, and advisories where their
# data is at hand.
#
#   scripts/deny.sh        the last line is 'N passed, N failed'
#
# cargo-deny is built once into target/tools. The advisories are a git repository that no registry
# of packages carries: HOLDLINE_ADVISORIES names a folder with a clone of it; without one they are
# left out, aloud.
set -u
cd "$(dirname "$0")/.."

version=0.20.2
tools="${CARGO_TARGET_DIR:-$PWD/target}/tools"
deny="$tools/bin/cargo-deny"
passed=0
failed=0

if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
    # Unoptimised: it runs for a second, and is built on every fresh machine.
    CARGO_TARGET_DIR="$tools/build" CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
        cargo install -q cargo-deny --version "$version" --locked --debug --no-default-features \
        --root "$tools" || echo "cargo-deny $version could not be built"
    rm -rf "$tools/build"
fi

# check WORD OPTION...: one of cargo-deny's checks.
check() {
    if "$deny" --log-level error check --hide-inclusion-graph "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

check licenses
check bans
check sources
if [ -n "${HOLDLINE_ADVISORIES:-}" ]; then
    check advisories --disable-fetch
else
    echo "ADVISORIES WERE NOT CHECKED: set HOLDLINE_ADVISORIES to a clone of their database"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
