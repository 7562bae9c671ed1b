#!/bin/sh
# Node has WebSocket by itself from version 22 on, and by this option from 20.10.
cd "$(dirname "$0")" || exit 1
flag=--experimental-websocket
node "$flag" -e 0 2>/dev/null || flag=
exec node $flag --no-warnings driver.mjs
