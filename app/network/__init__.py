"""Connections below the application: which are accepted, their time limits, how they end.
No request and no user: app/security/ sees those.
"""
