"""Authentication, authorization and limits of requests: users, tokens, roles, origins.
No page and no endpoint: app/ui/access/ and app/api/access/ have them.
"""
