"""What all pages share: routing, forms, tables, formats, language, layout, style, script.
No page of a feature: nothing here belongs to one of the folders beside it.
"""
