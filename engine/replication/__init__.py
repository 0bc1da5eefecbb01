"""A standby's copy of a leader: the log byte for byte, the progress journal change by change.

`cursor` reads a leader, `sink` writes a standby, `pieces` are what goes from one to the other;
`comparison` says in what two data directories differ. How pieces travel is the app's.
"""
