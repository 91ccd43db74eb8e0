"""What is read from and written to files: which are ours, what they must hold, and how they are written whole."""
