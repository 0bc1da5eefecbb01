"""Use cases that the API, the console and the command line share; each change is audited."""
