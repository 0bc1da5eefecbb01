"""Pages for reports: the list, each report's charts and tables, schedules, runs.
No computation of figures: analytics/ does that.
"""
