"""RocketMQ's own TCP protocol ("remoting"): frames, codes and batches, as pure bytes."""
