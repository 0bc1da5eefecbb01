#!/bin/sh
# The day's jobs are tested in Debian's Firefox too. Where it is missing and can be installed,
# install it; where it cannot, say so: those tests are then skipped, and in CI that is a failure.
set -eu

for browser in firefox-esr firefox; do
    if command -v "$browser" >/dev/null 2>&1; then exit 0; fi
done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Firefox is missing; installing it for the browser tests."
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends firefox-esr; then exit 0; fi
fi

echo "Firefox is missing and could not be installed: its browser tests cannot run." >&2
echo "Install it (on Debian: apt-get install firefox-esr) and run make test again." >&2
if [ "${CI:-}" = true ]; then exit 1; fi
