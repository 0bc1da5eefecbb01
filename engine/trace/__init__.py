"""What happened to each message: recorded from the engine's events, told as a journey."""
