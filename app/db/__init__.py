"""The control plane in SQL: sessions, tables and migrations of what people did.
No bytes of messages: engine/store/ keeps them.
"""
