"""Pages for users, tokens and rights, and for logging in and out.
No decision about rights: app/security/ makes them.
"""
