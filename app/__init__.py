"""The server's application: endpoints, the console, and the use cases behind them.
What knows messages itself belongs in engine/; clients belong in kitemq/.
"""
