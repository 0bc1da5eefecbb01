"""Pages for connected clients: members of groups, producers, connections.
No members of one group: app/ui/groups/ shows them.
"""
