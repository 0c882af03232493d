"""Servers in containers of Docker or Podman; the only place that knows the library ``docker``."""
