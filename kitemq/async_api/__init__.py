"""The operations of REST by resource, for asyncio code; `kitemq/api/` is made from these files.

After a change run `python -m tools.synchronous`; a test compares the two.
"""
