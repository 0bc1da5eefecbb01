"""The wire forms of Apache RocketMQ 5's gRPC service, from its own .proto files."""
