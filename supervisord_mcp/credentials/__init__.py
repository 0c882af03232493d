"""Secrets of servers: one interface, one file per source; a value goes to its server and nowhere else."""
