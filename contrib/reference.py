"""Put the reference of the configuration into README.md; run as ``python -m contrib.reference`` when models change."""

from __future__ import annotations

from pathlib import Path

from supervisord_mcp.config.reference import reference

README = Path(__file__).parents[1] / "README.md"
BEGIN = "<!-- reference: made by python -m contrib.reference, do not edit by hand -->\n"
END = "<!-- end of reference -->"


def with_reference(readme: str, text: str) -> str:
    """Given the README and a reference, return the README with that between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("README.md has lost the markers of its reference")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


if __name__ == "__main__":
    README.write_text(with_reference(README.read_text(encoding="utf-8"), reference()), encoding="utf-8")
