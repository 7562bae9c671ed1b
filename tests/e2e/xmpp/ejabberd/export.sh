#!/usr/bin/env bash
# Has ejabberd make four accounts in a folder of its own and export them here (README.md). It
# listens nowhere.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
ERL_LIBS=$(dirname "$(ls -d /usr/lib/*/ejabberd-* | head -1)")
export ERL_LIBS ERL_CRASH_DUMP=/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/export"
erl -noshell -mnesia dir "\"$work/db\"" -ejabberd config "\"$here/ejabberd.yml\"" \
    log_path "\"$work/ejabberd.log\"" -eval "
  {ok, _} = application:ensure_all_started(ejabberd),
  Password = <<\"correct \\\"horse\\\", b\", 195, 164, \"ttery\">>,
  [ok = ejabberd_auth:try_register(Name, Host, Password) || {Name, Host} <-
     [{<<\"ann.b\">>, <<\"old.example\">>}, {<<\"carl_d\">>, <<\"new.example\">>},
      {<<\"eve+f\">>, <<\"plain.example\">>}, {<<\"gus-h\">>, <<\"longer.example\">>}]],
  ok = ejabberd_piefxis:export_server(<<\"$work/export\">>),
  halt()."
for file in "$work"/export/*.xml; do
    name=$(basename "$file" .xml)
    case $name in
        *_example) cp "$file" "$here/${name#*_}.xml" ;;
        *) cp "$file" "$here/server.xml" ;;
    esac
done
