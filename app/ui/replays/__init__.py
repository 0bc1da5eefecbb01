"""Pages for replay jobs: list, form, progress, outcomes, history, export.
No choice of dead letters: app/ui/dead_letters/ makes it.
"""
