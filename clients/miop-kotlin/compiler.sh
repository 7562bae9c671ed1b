#!/bin/sh
# compiler.sh CLASSPATH FOLDER SOURCE...: compiles Kotlin into a folder, with the compiler that Maven
# fetches into build/compiler.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
jars="$here/build/compiler"
if [ ! -d "$jars" ]; then
    mvn -B -q -Dstyle.color=never -f "$here/compiler.xml" dependency:copy-dependencies \
        -DoutputDirectory="$jars.new"
    mv "$jars.new" "$jars"
fi
path="$1"
folder="$2"
shift 2
libraries="$(ls "$jars"/kotlin-stdlib-[0-9]*.jar "$jars"/kotlinx-coroutines-core-jvm-*.jar | tr '\n' ':')"
exec java -XX:TieredStopAtLevel=1 -cp "$jars/*" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler \
    -no-stdlib -no-reflect -jvm-target 11 -Werror -cp "$libraries$path" -d "$folder" "$@"
