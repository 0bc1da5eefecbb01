"""Who may talk to the server and how much at once; users, tokens and roles come on top."""
