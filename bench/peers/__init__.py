"""The brokers beside ours: how each is started and spoken to, with nothing but bytes."""
