"""Replay jobs and the marks of dead letters before a cluster, which SQL keeps.
No verbs: those are in `app/cluster/verbs/`.
"""
