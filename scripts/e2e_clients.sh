#!/usr/bin/env bash
# Installs the MQTT clients that tests/e2e/mqtt tries, Google's compiler of Protocol Buffers for
# tests/e2e/im, slixmpp, @xmpp/client, strophe.js, stanza.js, converse.js and Smack for
# tests/e2e/xmpp, s3rver and botocore for tests/e2e/media, two generators of clients for
# tests/e2e/openapi, nats-server for tests/e2e/cluster and crates/replication, and the checkers of
# the API's description, of its page of metrics, of the console and of the chart, each by its own
# package manager.
#
#   scripts/e2e_clients.sh FOLDER      what was fetched and built is kept there
#
# A client that cannot be installed is named and left out: its tests are then skipped, aloud. What
# is there already is not fetched again, unless tests/e2e/mqtt/clients has changed.
set -u
cd "$(dirname "$0")/.."
. scripts/apt.sh
mkdir -p "$1"
target="$(cd "$1" && pwd)"
sources=tests/e2e/mqtt/clients

# command:packages that bring it
needs=(mosquitto:mosquitto mosquitto_pub:mosquitto-clients node:nodejs npm:npm go:golang-go
    javac:default-jdk-headless mvn:maven pip3:python3-pip)

install_missing() {
    local need missing=()
    for need in "${needs[@]}"; do
        command -v "${need%%:*}" >/dev/null 2>&1 || missing+=("${need#*:}")
    done
    [ "${#missing[@]}" -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "holdline: not installed: ${missing[*]}; their tests are skipped" >&2
        return 0
    fi
    # One by one if all together fail: one that is not to be had must not keep the others away.
    apt_get update -qq
    apt_get install -y -qq --no-install-recommends "${missing[@]}" >&2 && return 0
    for need in "${missing[@]}"; do
        apt_get install -y -qq --no-install-recommends "$need" >&2
    done
    return 0
}

# client NAME SOURCE...: runs install_NAME unless it was run for these sources.
client() {
    local name="$1" stamp
    shift
    stamp="$(cd "$sources" && find "$@" -type f -not -path '*/target/*' | LC_ALL=C sort |
        xargs sha256sum | sha256sum)"
    [ "$(cat "$target/$name.stamp" 2>/dev/null)" = "$stamp" ] && return 0
    mkdir -p "$target/$name"
    if "install_$name" >"$target/$name.log" 2>&1; then
        echo "$stamp" >"$target/$name.stamp"
    else
        echo "holdline: the client of $name could not be installed:" >&2
        tail -n 5 "$target/$name.log" >&2
    fi
}

install_python() {
    python3 -m pip install --quiet --upgrade --target "$target/python" \
        -r "$sources/requirements.txt"
}

install_node() {
    cp "$sources/package.json" "$target/node/" &&
        npm install --prefix "$target/node" --no-package-lock --no-audit --no-fund --silent
}

install_axe() {
    cp "$sources/../../console/package.json" "$target/axe/" &&
        npm install --prefix "$target/axe" --no-package-lock --no-audit --no-fund --silent
}

install_go() {
    (cd "$sources/go" && go build -o "$target/go/driver" .)
}

install_java() {
    mvn -B -q -f "$sources/java/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$target/java/jars" &&
        javac -cp "$target/java/jars/*" -d "$target/java/classes" "$sources"/java/*.java
}

install_rumqttc() {
    CARGO_TARGET_DIR="$target/rumqttc" cargo build --quiet --locked \
        --manifest-path "$sources/rumqttc/Cargo.toml"
}

install_schemathesis() {
    python3 -m pip install --quiet --upgrade --target "$target/schemathesis" \
        -r "$sources/../../requirements.txt"
}

install_openapi-python() {
    python3 -m pip install --quiet --upgrade --target "$target/openapi-python" \
        -r "$sources/../../openapi/requirements.txt"
}

# With the compiler of what it makes in TypeScript.
install_openapi-generator() {
    local to="$target/openapi-generator"
    mvn -B -q -f "$sources/../../openapi/pom.xml" dependency:copy-dependencies \
        -Dmdep.stripVersion=true -DoutputDirectory="$to/jars" &&
        cp "$sources/../../openapi/package.json" "$to/" &&
        npm install --prefix "$to" --no-package-lock --no-audit --no-fund --silent
}

install_protobuf() {
    python3 -m pip install --quiet --upgrade --target "$target/protobuf" \
        -r "$sources/../../im/requirements.txt"
}

install_slixmpp() {
    python3 -m pip install --quiet --upgrade --target "$target/slixmpp" \
        -r "$sources/../../xmpp/requirements.txt"
}

install_xmpp-js() {
    local modules="$target/xmpp-js/node_modules"
    cp "$sources/../../xmpp/package.json" "$target/xmpp-js/" &&
        npm install --prefix "$target/xmpp-js" --no-package-lock --no-audit --no-fund --silent &&
        rm -rf "$modules/converse.js/src" "$modules/prettier" &&
        find "$modules" -name '*.map' -delete
}

install_smack() {
    mvn -B -q -f "$sources/../../xmpp/java/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$target/smack/jars" &&
        javac -cp "$target/smack/jars/*" -d "$target/smack/classes" "$sources"/../../xmpp/java/*.java
}

install_s3() {
    cp "$sources/../../media/package.json" "$target/s3/" &&
        npm install --prefix "$target/s3" --no-package-lock --no-audit --no-fund --silent
}

install_botocore() {
    python3 -m pip install --quiet --upgrade --target "$target/botocore" \
        -r "$sources/../../media/requirements.txt"
}

install_nats() {
    python3 -m pip install --quiet --upgrade --target "$target/nats" \
        -r "$sources/../../cluster/requirements.txt"
}

# Out of Debian's package, which is not installed: it would start a Prometheus.
install_promtool() {
    (cd "$target/promtool" && { apt-get download -qq prometheus ||
        { apt_get update -qq && apt-get download -qq prometheus; }; } &&
        dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb)
}

# From source, by Go's own checksums; what it was built from is not kept.
install_helm() {
    local from="$target/helm/from" done=0
    GOBIN="$target/helm" GOMODCACHE="$from/modules" GOCACHE="$from/cache" GOFLAGS=-modcacherw \
        go install helm.sh/helm/v3/cmd/helm@v3.22.0 || done=1
    rm -rf "$from"
    return "$done"
}

install_missing
client python requirements.txt
client node package.json
client axe ../../console/package.json
client go go
client java java
client rumqttc rumqttc
client schemathesis ../../requirements.txt
client openapi-python ../../openapi/requirements.txt
client openapi-generator ../../openapi/pom.xml ../../openapi/package.json
client protobuf ../../im/requirements.txt
client slixmpp ../../xmpp/requirements.txt
client xmpp-js ../../xmpp/package.json
client smack ../../xmpp/java
client s3 ../../media/package.json
client botocore ../../media/requirements.txt
client nats ../../cluster/requirements.txt
client promtool ../../test_metrics.py
client helm ../../test_helm.py
exit 0
