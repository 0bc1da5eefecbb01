"""Pages for the engine's health, disk, log and settings, and the server's switches.
No engine code: that is engine/ at the top of the tree.
"""
