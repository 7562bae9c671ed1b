#!/usr/bin/env bash
# Prints what is compiled into the binary (CycloneDX 1.5): packaging/sbom.sh VERSION
set -eu
cd "$(dirname "$0")/.."
target="$(rustc -vV | sed -n 's/^host: //p')"
tree="$(mktemp)"
trap 'rm -f "$tree"' EXIT
cargo tree --quiet --locked --package holdline --edges normal,build --prefix none \
    --target "$target" >"$tree"
cargo metadata --format-version 1 --locked --filter-platform "$target" |
    python3 packaging/sbom.py "$1" "$target" "$tree"
