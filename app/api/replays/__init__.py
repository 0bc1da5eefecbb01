"""REST for replay jobs: make, watch, pause, cancel, and those that ended.
No execution of jobs: engine/replay/ does that.
"""
