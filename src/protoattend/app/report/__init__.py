"""A report on a classifier: what it learned from, how it decides, how far it can be trusted, as one HTML file."""
