"""Transactions: messages stay invisible until their producer commits them."""
