"""REST for figures of the running server: Prometheus metrics, statistics, lag history.
No reports by Spark (app/api/reports/) and no sampling (app/monitoring/, engine/statistics/).
"""
