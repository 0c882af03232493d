"""Tests of the files of hosts; ``fixtures`` has files of each, as a person may have them."""
