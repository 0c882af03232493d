"""Secrets of servers: one interface, one file per source, and one masker that keeps their values out of every text."""
