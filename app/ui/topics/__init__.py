"""Pages for topics: list, one topic and its tabs, settings, imports, purge.
No search through messages and no publishing: app/ui/messages/ has both.
"""
