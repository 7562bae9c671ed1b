#!/usr/bin/env bash
# Makes a tarball with one static binary, for any Linux of this architecture: `make tarball`.
#
#   packaging/tarball.sh [FOLDER]     writes holdline-VERSION-linux-ARCH.tar.gz there
#                                     (target/package)
#
# HOLDLINE_PACKAGE_BINARY names the binary, which must be static. The same binary and
# SOURCE_DATE_EPOCH (the last commit's time, unless it is set) make the same bytes.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022

target="${CARGO_TARGET_DIR:-target}"
out="$(realpath -m "${1:-$target/package}")"
host="$(rustc -vV | sed -n 's/^host: //p')"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}"
binary="${HOLDLINE_PACKAGE_BINARY:-$target/$host/release/holdline}"

if readelf --program-headers "$binary" | grep -q INTERP; then
    echo "holdline: $binary is linked dynamically; \`make tarball\` builds one that is not" >&2
    exit 1
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
name="holdline-$version-linux-${host%%-*}"
root="$work/$name"
mkdir -p "$root/doc/examples"
install -m 755 "$binary" "$root/holdline"
strip --strip-unneeded "$root/holdline"
for file in LICENSE-APACHE LICENSE-MIT packaging/holdline.service packaging/sysctl.conf; do
    install -m 644 "$file" "$root/$(basename "$file")"
done
# The same pages as in the package, with links that work there.
PYTHONDONTWRITEBYTECODE=1 python3 packaging/docs.py "$root/doc"
install -m 644 packaging/examples/* "$root/doc/examples/"
gzip -9nc CHANGELOG.md >"$root/doc/changelog.gz"
packaging/sbom.sh "$version" >"$root/doc/holdline.cdx.json"
find "$root" -type d -exec chmod 755 {} +

mkdir -p "$out"
tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$SOURCE_DATE_EPOCH" "$name" | gzip -9n >"$out/$name.tar.gz"
echo "$out/$name.tar.gz"
