"""Pages for consumer groups: list, lag, members, offsets and resets, retries, settings.
No dead letters (app/ui/dead_letters/) and no sampling of lag (app/monitoring/).
"""
