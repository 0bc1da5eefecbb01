"""Copies of a server's log and journal over a network: the leader's port, the standby's client.
What is copied, and how it is applied, is `engine.replication`'s."""
