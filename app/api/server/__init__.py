"""REST for the server itself: health, readiness, audit trail, switches, support bundle.
No metrics: app/api/monitoring/ has them.
"""
