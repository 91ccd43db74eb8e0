"""The verbs of the command line, one file a verb or a group of them; each has `register(app)`.

What takes time to import is imported in the functions that use it: `--help` shall not wait for it.
"""
