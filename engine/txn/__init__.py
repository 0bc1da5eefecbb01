"""Transactions: half messages, their resolution and check-back. Not built yet."""
