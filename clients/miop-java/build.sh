#!/bin/sh
# Compiles the library, its tests and its example with nothing but a JDK. Maven builds the same
# from pom.xml.
set -e
cd "$(dirname "$0")"
rm -rf build
mkdir -p build/classes build/tests build/examples
javac --release 11 -Xlint:all -Werror -d build/classes $(find src/main/java -name '*.java')
javac --release 11 -Xlint:all -Werror -cp build/classes -d build/tests \
    $(find src/test/java -name '*.java')
javac --release 11 -Xlint:all -Werror -cp build/classes -d build/examples \
    $(find examples -name '*.java')
