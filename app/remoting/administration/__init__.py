"""Requests of administration tools: mqadmin, RocketMQ Dashboard and exporters."""
