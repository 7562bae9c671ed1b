#!/usr/bin/env bash
# End to end: installs what is missing, builds the binary, runs every test_*.py beside and below
# this file.
#
# The last line is 'N passed, N failed'. Names of tests may be given to run those alone:
#   tests/e2e/run.sh test_devices.Basics
#   tests/e2e/run.sh --install              installs what is missing, and runs nothing
# HOLDLINE_E2E_BINARY names a binary to try instead of building one, HOLDLINE_E2E_CLIENTS the folder
# where clients are kept. HOLDLINE_E2E_MQTT=mosquitto tries the tests of mqtt/ on mosquitto.
set -u
cd "$(dirname "$0")/../.." || exit 1
. scripts/apt.sh

# command:package that brings it; Chromium and Node serve the tests of pages and libraries alone.
needs=(python3:python3 openssl:openssl curl:curl node:nodejs chromium:chromium prlimit:util-linux
    wrk:wrk mosquitto:mosquitto ip:iproute2 redis-server:redis-server dpkg-shlibdeps:dpkg-dev
    strip:binutils systemd-analyze:systemd nsenter:util-linux prosodyctl:prosody
    mariadbd:mariadb-server-core mariadb:mariadb-client-core profanity:profanity tmux:tmux
    ejabberdctl:ejabberd tsung:tsung slapd:slapd ldapadd:ldap-utils)

install_missing() {
    local need missing=()
    for need in "${needs[@]}"; do
        command -v "${need%%:*}" >/dev/null 2>&1 || missing+=("${need#*:}")
    done
    [ "${#missing[@]}" -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "holdline: these packages are not installed, tests that need them fail or are" \
            "skipped: ${missing[*]}" >&2
        return 0
    fi
    apt_get update -qq && apt_install "${missing[@]}" >&2
}

install_missing
HOLDLINE_E2E_CLIENTS="${HOLDLINE_E2E_CLIENTS:-${CARGO_TARGET_DIR:-$PWD/target}/e2e-clients}"
export HOLDLINE_E2E_CLIENTS
scripts/e2e_clients.sh "$HOLDLINE_E2E_CLIENTS"
[ "${1:-}" != --install ] || exit 0

if [ -z "${HOLDLINE_E2E_BINARY:-}" ] && ! cargo build -q --workspace --bin holdline --bin bench --bin sim; then
    echo "the binary could not be built" >&2
    echo "0 passed, 1 failed"
    exit 1
fi

# A bound for a hang: the tests take a quarter of an hour on two cores, and longer on busy ones.
exec timeout --kill-after=10 3600 python3 tests/e2e/run.py "$@"
