#!/usr/bin/env bash
# Compiles the client library and the chat page of clients/, checks the types of the console, and
# runs their tests in Node.
#
#   scripts/clients.sh            the last line is 'N passed, N failed'
#   scripts/clients.sh --write    puts what was compiled of the page where the binary takes it from
#
# The compiler is the one that the library's package names, fetched by npm into target/npm. What it
# makes of the page lies in the repository, so that the binary is built without it: that the two
# are the same is a test.
set -u
cd "$(dirname "$0")/.."
. scripts/apt.sh

package=clients/im-js
page=clients/chat-page
console=clients/console
version="$(sed -n 's/.*"typescript": "\(.*\)".*/\1/p' "$package/package.json")"
tools="${CARGO_TARGET_DIR:-$PWD/target}/npm"
tsc="$tools/node_modules/.bin/tsc"

install_node() {
    command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 && return 0
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    apt_get update -qq && apt_get install -y -qq --no-install-recommends nodejs npm >&2
}

install_compiler() {
    [ "$("$tsc" --version 2>/dev/null)" = "Version $version" ] && return 0
    mkdir -p "$tools" && npm install --prefix "$tools" --no-package-lock --no-audit --no-fund \
        --silent "typescript@$version"
}

compile() {
    rm -rf "$package/dist" "$page/dist"
    "$tsc" -p "$package" &&
        "$tsc" -p "$package/tsconfig.browser.json" --outDir "$page/dist/im" && "$tsc" -p "$page"
}

# The console is served as it is written; its types stand in comments.
has_types() { "$tsc" -p "$console"; }

# The modules that were compiled, and those that lie in the repository.
made() { (cd "$page/dist" && find . -name '*.js' | sort); }
kept() { (cd "$page/public/chat" && find . -name '*.js' | sort); }

is_kept() {
    local file status=0
    diff <(made) <(kept) || status=1
    for file in $(made); do
        cmp "$page/dist/$file" "$page/public/chat/$file" || status=1
    done
    [ "$status" -eq 0 ] || echo "the page is not what its sources are: scripts/clients.sh --write"
    return "$status"
}

keep() {
    local file
    for file in $(kept); do rm "$page/public/chat/$file"; done
    for file in $(made); do install -D -m 644 "$page/dist/$file" "$page/public/chat/$file"; done
}

passed=0
failed=0
count() { if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }

# tests FOLDER: runs them in Node; tests that do not end with their counts are a failure.
tests() {
    local output good bad
    output="$(cd "$1" && node --test --test-reporter=tap test/*.test.js 2>&1)"
    good="$(sed -n 's/^# pass //p' <<<"$output" | tail -n 1)"
    bad="$(sed -n 's/^# \(fail\|cancelled\) //p' <<<"$output" | awk '{ sum += $1 } END { print sum + 0 }')"
    [ "$bad" -eq 0 ] && [ -n "$good" ] || echo "$output"
    passed=$((passed + ${good:-0}))
    failed=$((failed + $([ -n "$good" ] && echo "$bad" || echo 1)))
}

if ! { install_node && install_compiler && compile; }; then
    echo "0 passed, 1 failed"
    exit 1
fi
[ "${1:-}" != --write ] || keep
passed=1 # it compiles
count is_kept
count has_types
tests "$package"
tests "$page"
tests "$console"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
