#!/bin/sh
# Fetches protobuf into build/python, for the tests, unless Python has it.
cd "$(dirname "$0")" || exit 1
PYTHONPATH=build/python python3 -c 'import google.protobuf' 2>/dev/null && exit 0
exec python3 -m pip install -q --target build/python 'protobuf>=6.31,<8'
