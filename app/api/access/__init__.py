"""REST for users, tokens, logins, and the check of what somebody may do.
No decision about rights: app/security/ makes them.
"""
