"""A database on disk."""
