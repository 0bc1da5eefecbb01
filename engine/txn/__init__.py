"""Transactions: messages that nobody sees until their producer has committed them."""
