"""Delivery: pull and receive, filters, progress, hand-outs, order, retry and dead letters.

`desk.Desk` puts the parts together; `engine.broker` is the only one who asks for it.
"""
