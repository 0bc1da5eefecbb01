"""The WebSocket endpoint `/ws/v1`: connection, session, push, calls, and their limits.
No wire format (protocol/) and no operation of its own: calls go to app/api/.
"""
