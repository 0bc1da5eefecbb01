"""One data directory, two brokers: the files that Apache RocketMQ keeps beside the log."""
