#!/bin/sh
# Some tests, and the check of CSS and JavaScript, need programs of npm: `sh tools/ensure_node.sh tests/oidc ...`
# installs, for each folder with a package.json and its lock file, what that file pins; nothing of it is run
# while installing. Where Node is missing and can be installed, install Debian's; where it cannot, say so: what
# needs it is then left out, and in CI that is a failure.
set -eu

give_up() {
    echo "$1: what needs it is left out." >&2
    echo "Install Node 18 or newer and npm (on Debian: apt-get install nodejs npm) and run make again." >&2
    if [ "${CI:-}" = true ]; then exit 1; fi
    exit 0
}

if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then give_up "Node is missing"; fi
    echo "Node is missing; installing it."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs npm \
        || give_up "Node is missing and could not be installed"
fi

for folder in "$@"; do
    lock="$folder/package-lock.json"
    stamp="$folder/node_modules/.installed"
    if [ -f "$stamp" ] && [ "$stamp" -nt "$lock" ]; then continue; fi
    echo "Installing what $lock pins."
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) \
        || give_up "npm could not install what $lock pins"
    touch "$stamp"
done
