"""REST for users, tokens, logins, and the check of rights.
No decision about rights: app/security/ makes them.
"""
