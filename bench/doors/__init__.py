"""KiteMQ's own doors as the load generator needs them."""
