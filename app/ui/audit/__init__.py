"""The page of the audit trail: who changed what.
No writing of entries: app/services/ does that with each change.
"""
