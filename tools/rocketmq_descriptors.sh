#!/bin/sh
# Makes protocol/rocketmq/rocketmq.binpb, the compiled form of the .proto files beside it, and the
# check sums of both. Needs uv, which fetches the compiler into its cache for this one run.
set -eu
cd "$(dirname "$0")/../protocol/rocketmq"
python=python
if ! python -c "import grpc_tools" 2>/dev/null; then
    python="uvx --with grpcio-tools==1.76.0 python"
fi
$python -m grpc_tools.protoc -I . --include_imports --descriptor_set_out=rocketmq.binpb \
    apache/rocketmq/v2/service.proto
sha256sum apache/rocketmq/v2/*.proto rocketmq.binpb >SHA256SUMS
