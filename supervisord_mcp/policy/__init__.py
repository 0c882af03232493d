"""Decisions about processes and calls, pure: synchronous functions of (state, event, now)."""
