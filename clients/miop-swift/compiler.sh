#!/bin/sh
# compiler.sh ARGUMENT...: Swift's compiler, that of the system or, on a Debian without one, that of
# Debian 13, which is fetched into a tree of its own (as root, half a gigabyte, once; a gigabyte on the disk). A program that
# the latter makes runs with the libraries of that tree, HOLDLINE_SWIFT or target/swift. Where that
# is not possible, it ends with 77: there is no compiler.
set -e
checkout="$(cd "$(dirname "$0")/../.." && pwd)"
tree="${HOLDLINE_SWIFT:-$checkout/target/swift}"

command -v swiftc >/dev/null 2>&1 && exec swiftc "$@"

# Packages of another release, unpacked beside the system: nothing of the system changes.
make_tree() {
    apt="$tree.apt"
    . /etc/os-release
    from="$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' \
        'Component: main' | sed -n "s/^$VERSION_CODENAME //p" | head -n 1)"
    [ -n "$from" ] || { echo "no source of Debian's packages for $VERSION_CODENAME" >&2; return 1; }
    rm -rf "$tree.new" "$apt"
    mkdir -p "$tree.new" "$apt/lists/partial" "$apt/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from trixie main" \
        >"$apt/sources.list"
    : >"$apt/status"
    cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Sandbox::User "root";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
END
    export APT_CONFIG="$apt/apt.conf"
    apt-get update -qq
    apt-get install -y -qq --download-only --no-install-recommends \
        swiftlang swiftlang-dev libc6-dev libstdc++-14-dev >/dev/null
    for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$tree.new"; done
    # More than half of it, which compiles nothing here.
    ( cd "$tree.new/usr/libexec/swift" && rm -rf bin/clangd bin/lld bin/lldb* bin/sourcekit-lsp \
        bin/swift-package lib/libLTO* lib/liblldb* lib/libsourcekitdInProc.so lib/swift_static \
        lib/swift/embedded lib/swift/FrameworkABIBaseline )
    rm -rf "$tree.new/usr/share/doc" "$tree.new/usr/share/locale"
    for folder in bin lib lib64 sbin; do
        [ -e "$tree.new/$folder" ] || ln -s "usr/$folder" "$tree.new/$folder"
    done
    mkdir -p "$tree.new/proc" "$tree.new/dev" "$tree.new/tmp"
    mv "$tree.new" "$tree"
    rm -rf "$apt"
}

if [ "$1" = --fetch ]; then make_tree >&2; exit; fi
unshare --mount true 2>/dev/null || exit 77
if [ ! -d "$tree" ]; then sh "$0" --fetch || exit 77; fi
mkdir -p "$tree$checkout" "$tree$PWD"
exec unshare --mount sh -e -c '
    tree="$1" checkout="$2" chroot="$(command -v chroot)"
    shift 2
    mount -t proc proc "$tree/proc"
    mount --rbind /dev "$tree/dev"
    mount --bind "$checkout" "$tree$checkout"
    mount --bind "$PWD" "$tree$PWD"
    export PATH=/usr/bin HOME=/tmp TMPDIR=/tmp
    libraries="$tree/usr/lib/x86_64-linux-gnu:$tree/usr/libexec/swift/lib/swift/linux"
    exec "$chroot" "$tree" /usr/bin/swiftc -working-directory "$PWD" "$@" -Xlinker --disable-new-dtags \
        -Xlinker -rpath -Xlinker "$libraries" -Xlinker --no-as-needed -lstdc++ -lm \
        -Xlinker --dynamic-linker -Xlinker "$tree/lib64/ld-linux-x86-64.so.2"
    ' sh "$tree" "$checkout" "$@"
