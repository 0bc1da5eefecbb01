"""Requests over topics, and the replies to them."""
