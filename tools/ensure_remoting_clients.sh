#!/bin/sh
# Classic clients of RocketMQ, unmodified, for the tests of tests/remoting, and the small programs that drive
# them (ali-ons is npm's: ensure_node.sh). `sh tools/ensure_remoting_clients.sh PYTHON` installs
#   java    the newest 4.9 and 5.5: jars of Maven Central, as java/jars-*.sha256 list them
#   spring  rocketmq-spring-boot-starter: jars of Maven Central, as spring/jars.sha256 lists them
#   go      rocketmq-client-go/v2: a module of the Go proxy, as go/go.sum has it
#   cpp     the Python packages that bundle the C++ client, each in an environment of its own
# Each download is checked by its hash. Where a client cannot be installed, say so: its tests are then
# skipped, and in CI that is a failure.
set -eu

python="$1"
folder=tests/remoting/java

fail() {
    echo "RocketMQ's classic client ${client:-for Java} could not be installed: the tests that need it cannot run." >&2
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

for version in 4.9.8 5.5.0; do
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

client="for Spring"
folder=tests/remoting/spring
stamp="$folder/build/SpringDrive.class"
if ! { [ -f "$stamp" ] && [ "$stamp" -nt "$folder/jars.sha256" ] && [ "$stamp" -nt "$folder/SpringDrive.java" ]; }; then
    echo "Installing what $folder/jars.sha256 pins."
    mkdir -p "$folder/lib" "$folder/build"
    "$python" tools/fetch_jars.py "$folder/jars.sha256" "$folder/lib" || fail
    javac -nowarn -cp "$folder/lib/*" -d "$folder/build" "$folder/SpringDrive.java" || fail
fi

client="for C++"
folder=tests/remoting/cpp
for version in 0.4.4 0.5.0rc2; do
    venv="$folder/.venv-$version"
    lock="$folder/requirements-$version.txt"
    if [ -f "$venv/.installed" ] && [ "$venv/.installed" -nt "$lock" ]; then continue; fi
    echo "Installing what $lock pins."
    "$python" -m venv --clear "$venv" || fail
    "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes -r "$lock" || fail
    touch "$venv/.installed"
done

client="for Go"
folder=tests/remoting/go
program="$folder/build/drive"
if ! { [ -f "$program" ] && [ "$program" -nt "$folder/drive.go" ] && [ "$program" -nt "$folder/go.sum" ]; }; then
    if ! command -v go >/dev/null 2>&1; then
        if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
            echo "go is missing: install it (on Debian: apt-get install golang-go)." >&2
            fail
        fi
        apt-get update -qq && apt-get install -y -qq --no-install-recommends golang-go || fail
    fi
    echo "Installing what $folder/go.sum pins."
    (cd "$folder" && go build -mod=readonly -p 2 -o build/drive .) || fail
    touch "$program"
fi
