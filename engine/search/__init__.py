"""Finding messages: by id and key through the index, by anything else in bounded steps."""
