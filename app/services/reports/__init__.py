"""Reports: when they run, what became of their runs, and the figures that they left.
No computation of figures: analytics/ does that in a process of its own.
"""
