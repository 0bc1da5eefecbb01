"""Ways to a page: search box, command palette, saved views.
No menu and no layout: app/ui/framework/ has both.
"""
