"""REST for messages: produce, receive, acknowledge, read, search, request and reply.
No dead letters, traces or scheduled messages: each has its own place beside this folder.
"""
