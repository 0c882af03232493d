"""The stored catalogues: one file per instance spec, so that hosts are answered without starting anything (D8)."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from supervisord_mcp.config.files import keep_file
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.protocol import catalogue
from supervisord_mcp.protocol.catalogue import Catalogue

_log = logging.getLogger(__name__)

#: How many catalogues of one server are kept: one for each spec, which may change with every login or project.
KEPT = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class Catalogues:
    """The directory of stored catalogues. What cannot be read is learnt anew, what cannot be written is logged."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, server: str, digest: str) -> Catalogue | None:
        """Given a server and the digest of its resolved spec, return what is known of it, or None."""
        try:
            return catalogue.load(self._path(server, digest).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("cannot read the catalogue of %s: %s", server, error)
            return None

    def save(self, server: str, digest: str, learnt: Catalogue) -> None:
        """Keep what was learnt; the newest one of a server also answers hosts whose spec is not known yet.

        What a server tells of a secret that it was given is passed on as it is, but not kept on disk. An ordinary word
        tells nothing: tools for postgres have it in their texts.
        """
        content = catalogue.dump(learnt)
        if names := masker.names_telling(content):
            shown = ", ".join(sorted(names))
            _log.warning("the catalogue of %s is not kept on disk: the server put a secret into it (%s)", server, shown)
            return
        try:
            keep_file(self._path(server, digest), content)
            for old in self._of(server)[KEPT:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("cannot keep the catalogue of %s: %s", server, error)

    def newest(self, server: str) -> Catalogue | None:
        """Return the catalogue of a server that was learnt last, whatever its spec was, or None."""
        try:
            return next((found for path in self._of(server) if (found := catalogue.load(path.read_bytes()))), None)
        except OSError:
            return None

    def _path(self, server: str, digest: str) -> Path:
        return self._directory / f"{_UNSAFE.sub('_', server)}-{digest}.json"

    def _of(self, server: str) -> list[Path]:
        """Return the files of a server, the newest first."""
        pattern = re.compile(re.escape(_UNSAFE.sub("_", server)) + r"-[0-9a-f]{16}\.json")
        files = [path for path in self._directory.iterdir() if pattern.fullmatch(path.name)]
        return sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)
