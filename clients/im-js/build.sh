#!/bin/sh
# Compiles src to dist, with the compiler that scripts/clients.sh fetches for all libraries.
cd "$(dirname "$0")" || exit 1
tsc="${TSC:-${CARGO_TARGET_DIR:-../../target}/npm/node_modules/.bin/tsc}"
rm -rf dist
exec "$tsc" -p .
