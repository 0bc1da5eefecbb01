"""Requests of administration tools: mqadmin, RocketMQ Dashboard and the Prometheus exporter.
What clients ask themselves does not belong here (app/remoting/).
"""
