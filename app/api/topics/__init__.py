"""REST for topics: settings, imports, stars and notes, retention, purging.
No messages of a topic: app/api/messages/ reads and writes them.
"""
