"""Who may talk to the server and how much at once: users, tokens, roles, origins.
No page and no endpoint: app/ui/access/ and app/api/access/ have them.
"""
