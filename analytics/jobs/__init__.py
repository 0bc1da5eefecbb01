"""The reports as pure functions `build(frames, params) -> DataFrame`.

Of lag one module a table (`catalog`), of the traces one for all their tables (`traces`). They use
DataFrames only, so they run on this machine, on a cluster and over Connect, and read nothing but
what they are given.
"""
