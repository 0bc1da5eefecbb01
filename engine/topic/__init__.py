"""Topics: their names, configuration, and which queue a message goes to."""
