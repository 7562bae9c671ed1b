#!/bin/sh
# Compiles the library and the driver of the conformance suite into build/. For an application,
# Package.swift is what counts.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$here/build"
library="$here/build/libHoldlineMiop.a"
compile() { sh "$here/compiler.sh" -swift-version 5 -warnings-as-errors "$@"; }
compile -enable-testing -emit-library -static -emit-module -module-name HoldlineMiop \
    -emit-module-path "$here/build/HoldlineMiop.swiftmodule" "$here"/Sources/HoldlineMiop/*.swift \
    -o "$library"
compile -I "$here/build" "$here/Sources/conformance/main.swift" "$library" \
    -o "$here/build/conformance"
