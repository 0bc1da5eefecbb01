"""The shared parts of all pages: forms, tables, formats, language, layout, scripts.
No page of a feature: nothing here belongs to one of the folders beside it.
"""
