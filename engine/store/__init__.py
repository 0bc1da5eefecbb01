"""The store: records, segments, commit log, flush, consume queues, key index, recovery."""
