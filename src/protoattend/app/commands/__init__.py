"""The verbs of the command line, one file a verb or a group of them; each has `register(app)`, which app/cli.py calls.

What takes time to import (torch, numpy, pandas) is imported in the functions that use it: `--help` needs none of it.
"""
