"""REST under `/api/v1`: a folder or a file for each resource, with its shapes.
No rules of messaging (engine/) and no use case that a page needs too (app/services/).
"""
