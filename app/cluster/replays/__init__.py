"""Replay jobs and the marks of dead letters before a cluster, which SQL keeps.
Nothing here is a verb: those are in `app/cluster/verbs/`.
"""
