"""Attempts that run where a server would: only the standard library and this folder, on any Python from 3.9 on."""
