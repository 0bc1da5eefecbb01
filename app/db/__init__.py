"""The control plane in SQL: users, audit trail, views, alerts, and results of reports.
No message bytes: those are in engine/store/.
"""
