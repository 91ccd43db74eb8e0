"""What the prototype weights tell beyond the label: why, how sure, when not to answer, what is strange or wrong."""
