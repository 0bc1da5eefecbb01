"""The page of this browser's preferences: colours, time zone, language, density.
No settings of the server: app/settings.py has them.
"""
