"""Clients of KiteMQ as the load generator needs them."""
