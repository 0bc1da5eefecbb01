"""The console: a folder for each part of it, with its views, templates, style and script.
No rules of messaging (engine/) and no use case that REST needs too (app/services/).
"""
