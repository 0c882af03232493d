"""Put the references of the configuration, of hosts and of events into README.md.

Run as ``python -m contrib.reference`` when models, families of hosts or kinds of events change.
"""

from __future__ import annotations

from pathlib import Path

from supervisord_mcp.config.reference import reference
from supervisord_mcp.hosts.reference import reference as hosts_reference
from supervisord_mcp.protocol.kinds import reference as events_reference

README = Path(__file__).parents[1] / "README.md"
BEGIN = "<!-- reference: made by python -m contrib.reference, do not edit by hand -->\n"
END = "<!-- end of reference -->"
BEGIN_HOSTS = "<!-- hosts: made by python -m contrib.reference, do not edit by hand -->\n"
END_HOSTS = "<!-- end of hosts -->"
BEGIN_EVENTS = "<!-- events: made by python -m contrib.reference, do not edit by hand -->\n"
END_EVENTS = "<!-- end of events -->"


def with_reference(readme: str, text: str, begin_mark: str = BEGIN, end_mark: str = END) -> str:
    """Given the README and a reference, return the README with that between its markers."""
    before, begin, rest = readme.partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        raise ValueError("README.md has lost the markers of its reference")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


if __name__ == "__main__":
    written = with_reference(README.read_text(encoding="utf-8"), reference())
    written = with_reference(written, hosts_reference(), BEGIN_HOSTS, END_HOSTS)
    README.write_text(with_reference(written, events_reference(), BEGIN_EVENTS, END_EVENTS), encoding="utf-8")
