#!/bin/sh
# Apache RocketMQ's official Python client goes into an environment of its own, tests/clients/.venv:
# its generated code and ours cannot live in one, nor need its dependencies agree with ours.
# `sh tools/ensure_clients.sh PYTHON` makes it with that Python, each download checked by its hash.
# Where it cannot be installed, say so: its tests are then skipped, and in CI that is a failure.
set -eu

folder=tests/clients
lock="$folder/requirements.txt"
venv="$folder/.venv"
stamp="$venv/.installed"
if [ -f "$stamp" ] && [ "$stamp" -nt "$lock" ]; then exit 0; fi

echo "Installing what $lock pins."
if "$1" -m venv --clear "$venv" \
    && "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes -r "$lock"
then touch "$stamp"; exit 0; fi

rm -rf "$venv"
echo "RocketMQ's Python client could not be installed: the tests that need it cannot run." >&2
if [ "${CI:-}" = true ]; then exit 1; fi
