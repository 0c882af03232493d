"""Which hosts the pages of package indexes refer to: an index may keep its files elsewhere, and only its pages say so.

This text is run by a Python in the install sandbox, where the indexes and nothing else can be reached; it imports the
standard library only. It reads a question in JSON from stdin and writes the URL of a host a line. A page that cannot be
had says nothing: the installer will meet the same trouble, and tell of it.
"""

from __future__ import annotations

import base64
import html
import json
import re
import ssl
import sys
import urllib.request
from urllib.parse import unquote, urljoin, urlsplit

_SECONDS = 20.0
_MOST_BYTES = 32 << 20
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_LINK = re.compile(r"""<a\b[^>]*?\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.IGNORECASE)


def linked_hosts(page: str, kind: str, text: str) -> set[str]:
    """Given the URL of a page, its kind and its text, return the hosts of what it refers to, as URLs."""
    if "json" in kind:
        content = json.loads(text)
        files = content.get("files", []) if isinstance(content, dict) else []
        links = [file.get("url", "") for file in files if isinstance(file, dict)]
    else:
        links = [html.unescape("".join(groups)) for groups in _LINK.findall(text)]
    found = set()
    for link in links:
        try:
            parts = urlsplit(urljoin(page, str(link)))
            host, port = parts.hostname, parts.port
        except ValueError:
            continue
        if host and parts.scheme in ("http", "https"):
            shown = f"[{host}]" if ":" in host else host
            found.add(f"{parts.scheme}://{shown}" + (f":{port}" if port else ""))
    return found


def fetch(url: str, insecure: tuple[str, ...], certificates: str) -> set[str]:
    """Return the hosts that the page at a URL refers to. Raise `OSError` or `ValueError` where it cannot be had."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    place = url.replace(f"{parts.username or ''}{':' + parts.password if parts.password else ''}@", "", 1)
    request = urllib.request.Request(place, headers={"Accept": _ACCEPT})
    if parts.username:
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", f"Basic {base64.b64encode(words.encode()).decode()}")
    context = ssl.create_default_context(cafile=certificates or None)
    if host in insecure or f"{host}:{parts.port}" in insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    with opener.open(request, timeout=_SECONDS) as answer:
        text = answer.read(_MOST_BYTES).decode(errors="replace")
        return linked_hosts(answer.geturl(), answer.headers.get("Content-Type", ""), text)


def main() -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    found: set[str] = set()
    for url in asked["urls"]:
        for name in asked["names"]:
            try:
                found |= fetch(f"{url.rstrip('/')}/{name}/", tuple(asked["insecure"]), asked["certificates"])
            except (OSError, ValueError):
                continue
    with open(1, "w", encoding="utf-8", closefd=False) as file:
        file.writelines(f"{host}\n" for host in sorted(found))


if __name__ == "__main__":
    main()
