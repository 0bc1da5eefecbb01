"""Pages for dead letters: overview, one group's, one letter, resend, dismiss, export.
No progress of a replay job (app/ui/replays/) and no counting (app/monitoring/).
"""
