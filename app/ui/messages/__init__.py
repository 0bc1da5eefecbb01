"""Pages for messages: search, one message, live tail, publish, verify, export.
No decoding of bodies (app/ui/bodies/) and no journeys (app/ui/journeys/).
"""
