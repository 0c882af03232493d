"""The runtime without namespaces: what a process may do is taken from it by Landlock and a filter for system calls."""
