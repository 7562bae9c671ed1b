#!/usr/bin/env bash
# Installs what the tests need, runs all of them, and adds the suites up.
#
# A suite is any command whose last line is 'N passed, N failed'; so is the last line of this.
# Works as root on a fresh Debian or Ubuntu with Rust. Packages are fetched only when a command is
# missing; without root or apt-get the line says what to install by hand.
set -u
cd "$(dirname "$0")/.."
. scripts/apt.sh

# command:packages that bring it. The package of Redis may start a server of its own on its usual
# port: the tests start theirs on others.
needs=(cc:"gcc libc6-dev" python3:python3 curl:curl openssl:openssl redis-server:redis-server redis-cli:redis-tools)

install_missing() {
    local need missing=()
    for need in "${needs[@]}"; do
        if ! command -v "${need%%:*}" >/dev/null 2>&1; then
            read -ra packages <<<"${need#*:}"
            missing+=("${packages[@]}")
        fi
    done
    [ "${#missing[@]}" -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "holdline: the tests need these packages: ${missing[*]}" >&2
        return 1
    fi
    apt_get update -qq && apt_get install -y -qq --no-install-recommends "${missing[@]}"
}

# rustup's minimal profile leaves out the formatter and the lints.
install_components() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
    if ! command -v rustup >/dev/null 2>&1; then
        echo "holdline: the tests need rustfmt and clippy of the same Rust as cargo" >&2
        return 1
    fi
    rustup component add rustfmt clippy
}

log="$(mktemp)"
faults="$(mktemp)"
reasons="$(mktemp)"
trap 'rm -f "$log" "$faults" "$reasons"' EXIT
passed=0
failed=0

# suite COMMAND...: a suite that ends without its line, or badly without a failure, counts as one.
suite() {
    local status line
    "$@" 2>&1 | tee "$log"
    status="${PIPESTATUS[0]}"
    line="$(grep -Ex '[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)"
    if [ -z "$line" ] || { [ "$status" -ne 0 ] && [[ "$line" == *", 0 failed" ]]; }; then
        echo "failed: $* (status $status)" | tee -a "$faults"
        failed=$((failed + 1))
    fi
    # As cargo, Python's unittest, node's runner and our own suites say it.
    grep -E '^(test .* FAILED|(FAIL|ERROR): |not ok |✖ |failed: )' "$log" >>"$faults"
    # What a failed test said, of cargo and of Python's unittest.
    grep -E -A 24 '^(---- .* stdout ----$|(FAIL|ERROR): )' "$log" >>"$reasons"
    if [ -n "$line" ]; then
        passed=$((passed + ${line%% *}))
        line="${line#*, }"
        failed=$((failed + ${line%% *}))
    fi
}

# Two tests a core at a time: many of them wait, for a disk, a peer or a child.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"

install_missing && scripts/toolchain.sh && install_components || exit 1

suite scripts/toolchain_test.sh
suite scripts/deny.sh
suite scripts/clients.sh
suite cargo xtask check
if [ -f tests/e2e/run.sh ]; then
    suite bash tests/e2e/run.sh
fi

# Once more at the end, where whoever sees only that finds them.
head -n 400 "$reasons"
sort -u "$faults"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
