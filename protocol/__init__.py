"""Encodes and decodes RocketMQ's wire forms, bytes <-> typed values; imports nothing of ours."""
