"""What samples the broker's figures over time and forecasts from them, for every page.
No page, no translation and no request; raw statistics are engine/statistics/'s.
"""
