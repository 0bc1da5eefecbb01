"""REST for consumer groups: settings, members, progress, offsets and their resets.
No receiving and acknowledging of messages: app/api/messages/ has both.
"""
