"""REST for alert rules, their states, silences and webhooks, with their shapes.
No evaluation of rules: app/services/alerts/ does that.
"""
