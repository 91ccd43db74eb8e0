"""`python -m protoattend` is the command line."""

from protoattend.app.cli import main

main()
