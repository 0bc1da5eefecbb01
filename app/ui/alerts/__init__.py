"""Pages for firing alerts, their rules, silences and webhooks.
No evaluation of rules: app/services/alerts/ does that.
"""
