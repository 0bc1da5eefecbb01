"""Delivery: pull and receive, filters, progress, order, retry and dead letters.

`subsystem.DeliverySubsystem` puts the parts together; `engine.broker` alone uses it.
"""
