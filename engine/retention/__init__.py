"""Retention: whole segments by age, size and disk space; topics by their own age."""
