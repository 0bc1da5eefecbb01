"""Reads and writes the files that Apache RocketMQ keeps beside the log in the same directory."""
