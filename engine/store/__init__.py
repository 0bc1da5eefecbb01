"""Bytes: records, segments, commit log, flush, dispatch, consume queues, key index, recovery."""
