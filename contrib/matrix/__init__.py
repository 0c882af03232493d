"""Every official SDK as a host with every one as a server, through one daemon; run as ``python -m contrib.matrix``."""
