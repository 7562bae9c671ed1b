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
beside="$(mktemp)"
trap 'kill $(jobs -p) 2>/dev/null; rm -f "$log" "$faults" "$reasons" "$beside"' EXIT
passed=0
failed=0

# count COMMAND STATUS: adds up the suite whose output is in $log. One that ends without its line,
# or badly without a failure, counts as a failure.
count() {
    local line
    line="$(grep -Ex '[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)"
    if [ -z "$line" ] || { [ "$2" -ne 0 ] && [[ "$line" == *", 0 failed" ]]; }; then
        echo "failed: $1 (status $2)" | tee -a "$faults"
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

# suite COMMAND...: runs a suite and adds it up.
suite() {
    "$@" 2>&1 | tee "$log"
    count "$*" "${PIPESTATUS[0]}"
}

# Two tests a core at a time: many of them wait, for a disk, a peer or a child.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"

install_missing && scripts/toolchain.sh && install_components || exit 1

# The end-to-end tests run beside cargo: they wait for packages first, and for peers and time-outs
# later. Cargo leaves them the cores when they want them.
e2e="tests/e2e/run.sh"
bash "$e2e" --install >"$beside" 2>&1 &
suite scripts/toolchain_test.sh
suite scripts/deny.sh
suite scripts/clients.sh
cargo build -q --workspace --bin holdline --bin bench --bin sim
wait
HOLDLINE_E2E_BINARY="${CARGO_TARGET_DIR:-$PWD/target}/debug/holdline" bash "$e2e" >>"$beside" 2>&1 &
e2e_pid=$!
suite nice -n 5 clients/conformance/run.py --server "${CARGO_TARGET_DIR:-$PWD/target}/debug/holdline"
suite nice -n 5 cargo xtask check
wait "$e2e_pid"
status=$?
tee "$log" <"$beside"
count "bash $e2e" "$status"

# Once more at the end, where whoever sees only that finds them.
head -n 400 "$reasons"
sort -u "$faults"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
