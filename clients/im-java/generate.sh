#!/bin/sh
# Makes the schema's classes of im.proto, in FOLDER/generated (build/generated); Maven fetches
# protobuf and its compiler into FOLDER.
set -e
cd "$(dirname "$0")"
folder="${1:-build}"
version="$(sed -n 's:.*<protobuf.version>\(.*\)</.*:\1:p' pom.xml)"
schema=../../crates/proto-im/schema
mkdir -p "$folder/lib"
folder="$(cd "$folder" && pwd)"
fetch() {
    mvn -B -q -Dstyle.color=never -f ../miop-java/pom.xml dependency:copy -Dartifact="$1" -DoutputDirectory="$2"
}
if [ ! -f "$folder/lib/protobuf-javalite-$version.jar" ]; then
    fetch "com.google.protobuf:protobuf-javalite:$version" "$folder/lib"
fi
if [ ! -f "$folder/protoc-$version" ]; then
    system="$(uname -s | tr A-Z a-z | sed s/darwin/osx/)"
    machine="$(uname -m | sed 's/aarch64/aarch_64/; s/arm64/aarch_64/')"
    fetch "com.google.protobuf:protoc:$version:exe:$system-$machine" "$folder"
    mv "$folder/protoc-$version-$system-$machine.exe" "$folder/protoc-$version"
    chmod +x "$folder/protoc-$version"
fi
cmp -s $schema/im.proto "$folder/generated/im.proto" && exit 0
rm -rf "$folder/generated" "$folder/schema"
mkdir -p "$folder/generated"
"$folder/protoc-$version" -I$schema --java_out=lite:"$folder/generated" im.proto
cp $schema/im.proto "$folder/generated/"
