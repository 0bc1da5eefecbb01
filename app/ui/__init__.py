"""The console: HTML for people over the same broker that the API serves.

Every page answers a typed address and a reload without script; htmx then makes it quicker.
`routes.router` is all that the application needs of it.
"""
