"""The candidate database: its rows, its files, and exact attention over it."""
