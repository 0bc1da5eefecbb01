"""REST for a group's dead letters: list, resend, dismiss.
No replay jobs in general: app/api/replays/ has them.
"""
