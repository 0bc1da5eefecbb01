"""RocketMQ's own TCP protocol: name server and broker on one port, for classic clients."""
