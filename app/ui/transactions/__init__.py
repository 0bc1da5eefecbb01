"""Pages for undecided transactions, and for deciding one by hand.
No half messages: engine/txn/ has them.
"""
