#!/bin/sh
# Apache RocketMQ's broker, for the tests that carry a data directory to it and back: its jars from
# Maven Central (100 MB, the version that tests/rocketmq/pom.xml names), and the program that drives it.
# Where Java's compiler or Maven is missing and can be installed, install it; where it cannot, say so:
# those tests are then skipped, and in CI that is a failure.
set -eu

folder=tests/rocketmq
stamp="$folder/classes/.installed"
if [ -f "$stamp" ] && [ "$stamp" -nt "$folder/pom.xml" ] && [ "$stamp" -nt "$folder/Drive.java" ]; then
    exit 0
fi

if ! { command -v javac && command -v mvn; } >/dev/null 2>&1 \
    && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Java's compiler or Maven is missing; installing both for the tests with Apache RocketMQ."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jdk-headless maven || true
fi

if command -v javac >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1; then
    if [ ! -d "$folder/lib" ] || [ "$folder/pom.xml" -nt "$folder/lib" ]; then
        echo "Fetching what $folder/pom.xml names."
        rm -rf "$folder/lib"
        mvn --quiet --batch-mode --file "$folder/pom.xml" dependency:copy-dependencies \
            -DincludeScope=runtime -DoutputDirectory=lib || rm -rf "$folder/lib"
    fi
    if [ -d "$folder/lib" ] \
        && javac -nowarn -cp "$folder/lib/*" -d "$folder/classes" "$folder/Drive.java"
    then touch "$stamp"; exit 0; fi
fi

echo "Apache RocketMQ's broker could not be installed: the tests that need it cannot run." >&2
echo "Install a JDK (17 or newer) and Maven (on Debian: apt-get install default-jdk-headless maven)." >&2
if [ "${CI:-}" = true ]; then exit 1; fi
