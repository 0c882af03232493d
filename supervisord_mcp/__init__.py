"""A daemon that owns stdio MCP servers, so that many hosts share one sandboxed process per server."""

__version__ = "0.1.0"
