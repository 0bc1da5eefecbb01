"""Pages for messages that wait for their delivery time.
No delay queues: engine/schedule/ has them.
"""
