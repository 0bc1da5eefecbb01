"""Connections below the application: limits, timeouts, and how they end.
No requests and no users: those are in app/security/.
"""
