"""What happened to each message, recorded from the engine's events. Not built yet."""
