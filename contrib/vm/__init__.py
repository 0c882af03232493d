"""A virtual machine with systemd and control groups of version 2, and in it the tests that need a machine like that."""
