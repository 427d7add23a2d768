"""Other libraries and published methods, each in an environment of its own. Page peers: all tables.
Files ``run_*.py`` are run as plain files, by the Python of those environments.
"""
