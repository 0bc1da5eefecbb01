"""Replay jobs: chosen messages sent again, each at most once, with one named outcome for each."""
