"""What servers cost and do: samples over time, counts of calls. It watches, and nothing that it watches knows of it."""
