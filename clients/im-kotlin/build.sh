#!/bin/sh
# Compiles the Java library and this one into FOLDER (build).
set -e
cd "$(dirname "$0")"
folder="${1:-build}"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
sh ../im-java/build.sh "$folder"
sh ../miop-kotlin/compiler.sh "$(ls "$folder"/lib/*.jar):$folder/schema:$folder/classes" \
    "$folder/classes" src/main/kotlin/holdline/im/*.kt
