"""Pages for one message's journey: search, waterfall, verdicts, OpenTelemetry export.
No recording of traces: engine/trace/ does that.
"""
