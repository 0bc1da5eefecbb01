#!/bin/sh
# Apache RocketMQ's official clients, unmodified, for the tests of tests/clients. Node's is npm's affair
# (ensure_node.sh); `sh tools/ensure_clients.sh PYTHON [LANGUAGE ...]` installs those for python, java, go
# and rust, or of these the ones that are named, and builds the programs that drive them:
#   python  into an environment of its own, since its generated code and ours cannot live in one
#   java    jars of Maven Central, as java/jars.sha256 lists them
#   go      a module of the Go proxy, as go/go.sum has it
#   rust    a crate of crates.io, as rust/Cargo.lock has it
# Each download is checked by its hash. What was built is kept until its sources change. Where a client
# cannot be installed, say so: its tests are then skipped, and in CI that is a failure.
set -eu

python="$1"
shift
root=$(pwd)
folder=tests/clients
is_missing=0

# Whether the file $1 is there and newer than all that follow.
is_fresh() {
    made="$1"
    shift
    if [ ! -f "$made" ]; then return 1; fi
    for source in "$@"; do
        if [ ! "$made" -nt "$source" ]; then return 1; fi
    done
}

# Install Debian's package $2 where the program $1 is missing and that can be done.
ensure_program() {
    if command -v "$1" >/dev/null 2>&1; then return 0; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "$1 is missing: install it (on Debian: apt-get install $2)." >&2
        return 1
    fi
    echo "$1 is missing; installing it for the tests that need it."
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2"
}

install_python() {
    lock="$folder/requirements.txt"
    venv="$folder/.venv"
    if is_fresh "$venv/.installed" "$lock"; then return 0; fi
    echo "Installing what $lock pins."
    if "$python" -m venv --clear "$venv" \
        && "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes -r "$lock"
    then touch "$venv/.installed"; return 0; fi
    rm -rf "$venv"
    return 1
}

install_java() {
    lock="$folder/java/jars.sha256"
    build="$folder/java/build"
    if is_fresh "$build/Drive.class" "$lock" "$folder/java/Drive.java"; then return 0; fi
    ensure_program javac default-jdk-headless || return 1
    echo "Installing what $lock pins."
    mkdir -p "$folder/java/lib" "$build"
    "$python" tools/fetch_jars.py "$lock" "$folder/java/lib" || return 1
    newest=$(sed -n 's/.*  //p' "$lock" | head -n 1)
    javac -nowarn -cp "$folder/java/lib/${newest##*/}" -d "$build" "$folder/java/Drive.java"
}

install_go() {
    here="$folder/go"
    if is_fresh "$here/build/drive" "$here/drive.go" "$here/go.mod" "$here/go.sum"; then return 0; fi
    ensure_program go golang-go || return 1
    echo "Installing what $here/go.sum pins."
    (cd "$here" && go build -mod=readonly -p 2 -o build/drive .) || return 1
    touch "$here/build/drive"
}

install_rust() {
    here="$folder/rust"
    if is_fresh "$here/target/debug/drive" "$here/drive.rs" "$here/Cargo.toml" "$here/Cargo.lock"
    then return 0; fi
    ensure_program cargo cargo || return 1
    ensure_program cc gcc || return 1
    echo "Installing what $here/Cargo.lock pins; the first time takes some minutes."
    (cd "$here" && cargo build --quiet --locked --jobs 2 --target-dir "$root/$here/target") || return 1
    touch "$here/target/debug/drive"
}

for language in ${*:-python java go rust}; do
    if "install_$language"; then continue; fi
    echo "RocketMQ's client for $language could not be installed: the tests that need it cannot run." >&2
    is_missing=1
done
if [ "$is_missing" = 1 ] && [ "${CI:-}" = true ]; then exit 1; fi
