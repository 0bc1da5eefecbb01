"""The first page: what needs attention, traffic, the most active topics and groups.
No sampling: app/monitoring/ does that, and this folder judges it.
"""
