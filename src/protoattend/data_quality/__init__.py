"""Label errors and error analysis."""
