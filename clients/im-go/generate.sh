#!/bin/sh
# Makes pb/im.pb.go of im.proto, with the compiler that im-python/generate.sh fetches and the plugin
# that Go fetches into build/.
set -e
cd "$(dirname "$0")"
GOBIN="$PWD/build/bin" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.5
PYTHONPATH=../im-python/build/protoc python3 -m grpc_tools.protoc \
    --plugin=protoc-gen-go=build/bin/protoc-gen-go -I../../crates/proto-im/schema \
    --go_out=. --go_opt=module=holdline.example/im --go_opt=Mim.proto=holdline.example/im/pb im.proto
