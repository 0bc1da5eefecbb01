#!/bin/sh
# Apache RocketMQ's classic Java client, its newest 4.9 and 5.3, goes into tests/remoting/java/lib,
# and the small program that drives it is compiled against each; the one for mqadmin, against the newest.
# `sh tools/ensure_remoting_clients.sh PYTHON` fetches the jars with that Python, each checked by its hash.
# Where that cannot be done, say so: its tests are then skipped, and in CI that is a failure.
set -eu

python="$1"
folder=tests/remoting/java

fail() {
    echo "RocketMQ's classic Java client could not be installed: the tests that need it cannot run." >&2
    if [ "${CI:-}" = true ]; then exit 1; fi
    exit 0
}

if ! command -v javac >/dev/null 2>&1; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "javac is missing: install it (on Debian: apt-get install default-jdk-headless)." >&2
        fail
    fi
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jdk-headless || fail
fi

for version in 4.9.8 5.3.3; do
    lock="$folder/jars-$version.sha256"
    build="$folder/build/$version"
    stamp="$build/.compiled"
    if [ -f "$stamp" ] && [ "$stamp" -nt "$lock" ] && [ "$stamp" -nt "$folder/Drive.java" ] \
        && [ "$stamp" -nt "$folder/Drive5.java" ] && [ "$stamp" -nt "$folder/Admin.java" ]
    then continue; fi
    echo "Installing what $lock pins."
    mkdir -p "$folder/lib/$version" "$build"
    "$python" tools/fetch_jars.py "$lock" "$folder/lib/$version" || fail
    # One class of the client lies in another package since version 5.
    model=org.apache.rocketmq.remoting.protocol.heartbeat
    case "$version" in 4.*) model=org.apache.rocketmq.common.protocol.heartbeat ;; esac
    sed "s/@MODEL@/$model/" "$folder/Drive.java" > "$build/Drive.java"
    javac -nowarn -cp "$folder/lib/$version/*" -d "$build" "$build/Drive.java" || fail
    case "$version" in
        5.*) javac -nowarn -cp "$build:$folder/lib/$version/*" -d "$build" \
            "$folder/Drive5.java" "$folder/Admin.java" || fail ;;
    esac
    touch "$stamp"
done
