#!/bin/sh
# Compiles the Java library and this one into FOLDER/classes (build/classes).
set -e
cd "$(dirname "$0")"
folder="${1:-build}"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
rm -rf "$folder/classes"
mkdir "$folder/classes"
javac --release 11 -d "$folder/classes" $(find ../miop-java/src/main/java -name '*.java')
sh compiler.sh "$folder/classes" "$folder/classes" src/main/kotlin/holdline/miop/*.kt
