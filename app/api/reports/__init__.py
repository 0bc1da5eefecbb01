"""REST for reports: schedules, runs, and the figures that Spark computed.
No computation of figures: analytics/ does that.
"""
