"""The table of what can be reached from each isolation."""
