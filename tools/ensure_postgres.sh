#!/bin/sh
# The database tests run over SQLite and over PostgreSQL, of which they start a cluster of their own
# and throw it away. Where it is missing and can be installed, install it; where it cannot, say so:
# those tests are then skipped, and in CI that is a failure.
set -eu

if command -v initdb >/dev/null 2>&1; then exit 0; fi
for programs in /usr/lib/postgresql/*/bin; do
    if [ -x "$programs/initdb" ] && [ -x "$programs/postgres" ]; then exit 0; fi
done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "PostgreSQL is missing; installing it for the database tests."
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; then exit 0; fi
fi

echo "PostgreSQL is missing and could not be installed: half of the database tests cannot run." >&2
echo "Install it (on Debian: apt-get install postgresql) and run make test again." >&2
if [ "${CI:-}" = true ]; then exit 1; fi
