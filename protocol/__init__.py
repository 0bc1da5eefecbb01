"""RocketMQ's wire forms as pure bytes <-> typed values; imports nothing of the project."""
