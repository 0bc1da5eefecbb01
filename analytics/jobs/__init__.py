"""The reports as pure functions: `build(frames, params) -> DataFrame`, one module a table.

They use DataFrames and SQL only, so they run on this machine, on a cluster and over Connect, and
read nothing but the frames that they are given.
"""
