"""A client of RocketMQ clusters: routes, connections, and verbs for topics, groups and messages.
No embedded engine, SQL or request belongs here; the wire's bytes are in `protocol/remoting`.
"""
