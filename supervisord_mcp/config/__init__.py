"""Reads and writes configuration files and starts nothing; the one home of pydantic."""
