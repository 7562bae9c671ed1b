#!/usr/bin/env bash
# Compiles the client libraries of clients/ and runs their tests in Node.
#
#   scripts/clients.sh        the last line is 'N passed, N failed'
#
# The compiler is the one that the package names, fetched by npm into target/npm.
set -u
cd "$(dirname "$0")/.."

package=clients/im-js
version="$(sed -n 's/.*"typescript": "\(.*\)".*/\1/p' "$package/package.json")"
tools="${CARGO_TARGET_DIR:-$PWD/target}/npm"
tsc="$tools/node_modules/.bin/tsc"

install_node() {
    command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 && return 0
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs npm >&2
}

install_compiler() {
    [ "$("$tsc" --version 2>/dev/null)" = "Version $version" ] && return 0
    mkdir -p "$tools" && npm install --prefix "$tools" --no-package-lock --no-audit --no-fund \
        --silent "typescript@$version"
}

if ! { install_node && install_compiler && rm -rf "$package/dist" && "$tsc" -p "$package"; }; then
    echo "0 passed, 1 failed"
    exit 1
fi
output="$(cd "$package" && node --test --test-reporter=tap test/*.test.js 2>&1)"
passed="$(sed -n 's/^# pass //p' <<<"$output" | tail -n 1)"
failed="$(sed -n 's/^# \(fail\|cancelled\) //p' <<<"$output" | awk '{ sum += $1 } END { print sum + 0 }')"
[ "$failed" -eq 0 ] && [ -n "$passed" ] || echo "$output"
echo "$((${passed:-0} + 1)) passed, $([ -n "$passed" ] && echo "$failed" || echo 1) failed"
[ -n "$passed" ] && [ "$failed" -eq 0 ]
