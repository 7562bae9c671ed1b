#!/usr/bin/env bash
# Makes a container's root filesystem of the Debian package, and the image where a builder is there.
#
#   packaging/image.sh [FOLDER]     FOLDER (target/image) becomes what the Dockerfile is built from
#
# The package is the one that `make package` left in target/package, or HOLDLINE_IMAGE_PACKAGE.
# buildah needs no daemon; without it docker is asked; without both, or with HOLDLINE_IMAGE_BUILDER
# set to none, the folder is all there is.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C
umask 022

target="${CARGO_TARGET_DIR:-target}"
out="$(realpath -m "${1:-$target/image}")"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
package="$target/package/holdline_$version-1_$(dpkg --print-architecture).deb"
package="${HOLDLINE_IMAGE_PACKAGE:-$package}"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(dpkg-deb --ctrl-tarfile "$package" |
    tar --list --verbose --full-time --utc --file - ./control |
    sed 's/.* \([0-9-]* [0-9:]*\) .*/\1 UTC/' | xargs -I TIME date -d TIME +%s)}"
export SOURCE_DATE_EPOCH

rm -rf "$out"
root="$out/root"
mkdir -p "$out/data" "$out/package"
dpkg-deb --extract "$package" "$out/package"

# take PLACE: from the package.
take() { mkdir -p "$(dirname "$root/$1")" && cp -a "$out/package/$1" "$root/$1"; }
take usr/bin/holdline
for file in copyright holdline.toml holdline.cdx.json; do take "usr/share/doc/holdline/$file"; done
rm -rf "$out/package"
install -D -m 644 packaging/container.toml "$root/etc/holdline/holdline.toml"

# The loader and the libraries, under the names by which the binary asks for them.
ldd "$root/usr/bin/holdline" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    install -D -m 755 "$(realpath "$library")" "$root$library"
done

mkdir -p "$root/var/lib" "$root/run"
mkdir -m 1777 "$root/tmp"
echo 'holdline:x:65532:65532:Holdline:/var/lib/holdline:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'holdline:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
# Whom webhooks, bridges and services are checked against.
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
else
    echo "holdline: no certificates of authorities (ca-certificates): the image has none" >&2
fi
cp packaging/Dockerfile "$out/Dockerfile"
find "$out" -depth -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

tag="holdline:$version"
if [ "${HOLDLINE_IMAGE_BUILDER:-}" = none ]; then
    :
elif command -v buildah >/dev/null; then
    buildah --storage-driver "${HOLDLINE_IMAGE_DRIVER:-vfs}" bud --isolation chroot --quiet \
        --timestamp "$SOURCE_DATE_EPOCH" --tag "$tag" "$out"
elif command -v docker >/dev/null; then
    docker build --quiet --tag "$tag" "$out"
else
    echo "holdline: neither buildah nor docker is here: the folder is left for another builder" >&2
fi
echo "$out"
