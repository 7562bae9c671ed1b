#!/usr/bin/env bash
# Puts together what a release publishes: `make release`.
#
#   packaging/release.sh [FOLDER]     FOLDER (target/release-files) gets the Debian package, the
#                                     tarball, the list of libraries (SBOM), the changelog,
#                                     SHA256SUMS and, with HOLDLINE_SIGN, its signature
#
# HOLDLINE_SIGN is a command that is given SHA256SUMS as its last word and leaves the signature
# beside it, for example HOLDLINE_SIGN='gpg --batch --armor --detach-sign'. It refuses a working
# tree with changes, of which no commit tells, unless HOLDLINE_RELEASE_DIRTY=1.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C

target="${CARGO_TARGET_DIR:-target}"
out="$(realpath -m "${1:-$target/release-files}")"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
if [ -z "${HOLDLINE_RELEASE_DIRTY:-}" ] && [ -n "$(git status --porcelain)" ]; then
    echo "holdline: the working tree has changes: commit them first" >&2
    exit 1
fi

rm -rf "$out"
mkdir -p "$out"
packages="$(realpath "$target/package")"
cp "$packages/holdline_$version-1_$(dpkg --print-architecture).deb" "$out/"
cp "$packages/holdline-$version-linux-$(rustc -vV | sed -n 's/^host: \([^-]*\).*/\1/p').tar.gz" "$out/"
packaging/sbom.sh "$version" >"$out/holdline-$version.cdx.json"
cp CHANGELOG.md "$out/"
(cd "$out" && sha256sum -- * >SHA256SUMS)
if [ -n "${HOLDLINE_SIGN:-}" ]; then
    (cd "$out" && $HOLDLINE_SIGN SHA256SUMS)
else
    echo "holdline: not signed: set HOLDLINE_SIGN (packaging/release.sh says how)" >&2
fi
(cd "$out" && sha256sum --check --quiet SHA256SUMS && ls -l)
