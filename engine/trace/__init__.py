"""Message traces: recorded from the engine's events, assembled into journeys."""
