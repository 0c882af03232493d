"""What a server can do in its isolation, tried and not assumed: `inside` runs there, the rest prepares and compares."""
