"""Reports: when they run, what became of their runs, and the figures that they left."""
