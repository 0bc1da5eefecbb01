"""The help page and its glossary.
No documentation of the project: that is docs/.
"""
