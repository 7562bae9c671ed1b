#!/bin/sh
# Makes src/holdline_im/im_pb2.py of im.proto, with the compiler that pip fetches into build/.
# The code that it makes needs protobuf 6.31 or later, and below 8.
set -e
cd "$(dirname "$0")"
[ -d build/protoc ] || python3 -m pip install -q --target build/protoc grpcio-tools==1.74.0
mkdir -p build/proto/holdline_im
cp ../../crates/proto-im/schema/im.proto build/proto/holdline_im/
PYTHONPATH=build/protoc python3 -m grpc_tools.protoc -Ibuild/proto --python_out=src \
    holdline_im/im.proto
