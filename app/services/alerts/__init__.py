"""Alerts: rules over the broker's figures, their states, and webhooks.
No page and no endpoint: app/ui/alerts/ and app/api/alerts/ have them.
"""
