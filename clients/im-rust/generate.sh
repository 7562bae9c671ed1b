#!/bin/sh
# Makes src/pb.rs of im.proto, with the compiler that im-python/generate.sh fetches and the plugin
# that cargo installs into build/.
set -e
cd "$(dirname "$0")"
cargo install --quiet --root build protoc-gen-prost@0.5.0
mkdir -p build/pb
PYTHONPATH=../im-python/build/protoc python3 -m grpc_tools.protoc \
    --plugin=protoc-gen-prost=build/bin/protoc-gen-prost -I../../crates/proto-im/schema \
    --prost_out=build/pb im.proto
cp build/pb/holdline/im/v1/holdline.im.v1.rs src/pb.rs
cargo fmt
