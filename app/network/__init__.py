"""Connections below the application: which are taken, how long each may take, how they end."""
