#!/bin/sh
# Compiles the library and its tests with a JDK into FOLDER (build). Maven makes the same from
# pom.xml.
set -e
cd "$(dirname "$0")"
folder="${1:-build}"
sh generate.sh "$folder"
path="$folder/lib/*:$folder/schema:$folder/classes"
# The schema's classes are many: they are compiled when it has changed.
if [ ! -d "$folder/schema" ]; then
    mkdir "$folder/schema.new"
    javac --release 11 -nowarn -cp "$path" -d "$folder/schema.new" \
        $(find "$folder/generated" -name '*.java')
    mv "$folder/schema.new" "$folder/schema"
fi
rm -rf "$folder/classes" "$folder/tests"
mkdir "$folder/classes" "$folder/tests"
javac --release 11 -Xlint:all,-path -Werror -cp "$path" -d "$folder/classes" \
    $(find src/main/java -name '*.java')
javac --release 11 -Xlint:all,-path -Werror -cp "$path" -d "$folder/tests" \
    $(find src/test/java -name '*.java')
