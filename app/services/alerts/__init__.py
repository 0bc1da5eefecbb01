"""Alerts: rules over the broker's figures, where they stand, and telling others."""
