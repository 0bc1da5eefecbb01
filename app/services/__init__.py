"""Use cases that the API, the console and the command line share; each change is audited.
No request, no HTML and no wire format: endpoints and pages translate.
"""
