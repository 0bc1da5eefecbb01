"""Copies of log and journal over a network: the leader's port, and the client of a standby.
No decision about what is copied (engine/replication/) and no bytes of the frames (protocol/).
"""
