#!/usr/bin/env bash
# Makes a Debian package of the binary: `make package`.
#
#   packaging/package.sh [FOLDER]     writes holdline_VERSION_ARCH.deb there (target/package)
#
# HOLDLINE_PACKAGE_BINARY names the binary instead of the release one, HOLDLINE_PACKAGE_VERSION
# another version than that of Cargo.toml, HOLDLINE_PACKAGE_COMPRESS how it is compressed (xz; none
# is quick). The same binary and SOURCE_DATE_EPOCH (the last commit's time, unless it is
# set) make the same bytes, whoever makes them and where.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022

out="$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/package}")"
for tool in dpkg-deb dpkg-shlibdeps strip python3 gzip; do
    command -v "$tool" >/dev/null ||
        { echo "holdline: $tool is needed (apt-get install dpkg-dev binutils python3)" >&2; exit 1; }
done

cargo_version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
version="${HOLDLINE_PACKAGE_VERSION:-$cargo_version-1}"
arch="$(dpkg --print-architecture)"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}"
export SOURCE_DATE_EPOCH

binary="${HOLDLINE_PACKAGE_BINARY:-${CARGO_TARGET_DIR:-target}/release/holdline}"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
root="$work/root"

# put MODE FILE PLACE
put() { install -D -m "$1" "$2" "$root/$3"; }
# zip FILE PLACE: for pages and changelogs, which Debian keeps compressed.
zip() {
    mkdir -p "$(dirname "$root/$2")"
    gzip -9nc "$1" >"$root/$2"
    chmod 644 "$root/$2"
}

put 755 "$binary" usr/bin/holdline
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/holdline"
holdline="$root/usr/bin/holdline"

put 644 packaging/holdline.service usr/lib/systemd/system/holdline.service
put 644 packaging/sysusers.conf usr/lib/sysusers.d/holdline.conf
put 644 packaging/sysctl.conf usr/lib/sysctl.d/60-holdline.conf
put 640 packaging/holdline.toml etc/holdline/holdline.toml
chmod 750 "$root/etc/holdline"

"$holdline" generate man "$work/man" >/dev/null
for page in "$work"/man/*.1; do
    zip "$page" "usr/share/man/man1/$(basename "$page").gz"
done
for shell in bash:usr/share/bash-completion/completions/holdline \
    zsh:usr/share/zsh/vendor-completions/_holdline \
    fish:usr/share/fish/vendor_completions.d/holdline.fish; do
    "$holdline" generate completions "${shell%%:*}" >"$work/completions"
    put 644 "$work/completions" "${shell#*:}"
done

put 644 packaging/debian/lintian-overrides usr/share/lintian/overrides/holdline

doc=usr/share/doc/holdline
put 644 packaging/debian/copyright "$doc/copyright"
PYTHONDONTWRITEBYTECODE=1 python3 packaging/docs.py "$root/$doc"
for file in packaging/examples/*; do put 644 "$file" "$doc/examples/$(basename "$file")"; done
zip CHANGELOG.md "$doc/changelog.gz"
maintainer="Holdline maintainers <maintainers@users.noreply.a-seed-e05dc87d.example>"
cat >"$work/changelog" <<END
holdline ($version) unstable; urgency=medium

  * Holdline $cargo_version; what is new in it is in changelog.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
zip "$work/changelog" "$doc/changelog.Debian.gz"
packaging/sbom.sh "$cargo_version" >"$work/sbom"
put 644 "$work/sbom" "$doc/holdline.cdx.json"

mkdir "$root/DEBIAN" "$work/debian"
for script in postinst prerm postrm; do
    install -m 755 "packaging/debian/$script" "$root/DEBIAN/$script"
done
echo /etc/holdline/holdline.toml >"$root/DEBIAN/conffiles"
# What the binary is linked against, with the versions whose symbols it uses.
printf 'Source: holdline\n\nPackage: holdline\nArchitecture: any\n' >"$work/debian/control"
libraries="$(cd "$work" && dpkg-shlibdeps -O "$holdline" 2>/dev/null)"
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z |
    xargs -0 md5sum >DEBIAN/md5sums)
size="$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f 1)"
cat >"$root/DEBIAN/control" <<END
Package: holdline
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $size
Depends: ${libraries#shlibs:Depends=}, systemd | systemd-sysusers, init-system-helpers (>= 1.52)
Recommends: ca-certificates
Section: net
Priority: optional
Description: server for persistent connections: push, MQTT and messaging
 Holdline keeps millions of long-lived connections and brings messages to each
 of them: push over MIOP, a complete MQTT broker, and instant messaging over
 one core. What it answered is on the disk.
 .
 With it comes the laboratory that finds the limits of this server, or of any
 other, and says why they are there.
END
chmod 644 "$root"/DEBIAN/control "$root"/DEBIAN/md5sums "$root"/DEBIAN/conffiles
find "$root" -depth -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
package="$out/holdline_${version}_$arch.deb"
dpkg-deb --root-owner-group -Z"${HOLDLINE_PACKAGE_COMPRESS:-xz}" --threads-max=1 \
    --build "$root" "$package" >/dev/null
echo "$package"
