"""Reports over traces and lag records with PySpark, in a process of its own. Not built yet."""
