"""Catalogues on disk: kept, found again, replaced, and no harm done where that is not possible."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from supervisord_mcp.catalogues import KEPT, Catalogues
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.protocol.catalogue import Catalogue

A, B = "0123456789abcdef", "fedcba9876543210"


def catalogue(name: str) -> Catalogue:
    """A catalogue that can be told from others."""
    handshake = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"%b"}}'
    return Catalogue(handshake % name.encode(), {"tools/list": (b'{"name":"%b"}' % name.encode(),)})


@pytest.fixture
def catalogues(tmp_path: Path) -> Catalogues:
    return Catalogues(tmp_path / "catalogue")


def test_what_was_saved_is_found_under_its_spec_only(catalogues: Catalogues, tmp_path: Path) -> None:
    assert catalogues.load("files", A) is None
    assert catalogues.newest("files") is None
    catalogues.save("files", A, catalogue("one"))
    assert catalogues.load("files", A) == catalogue("one")
    assert catalogues.load("files", B) is None
    assert catalogues.load("file", A) is None
    catalogues.save("files", A, catalogue("two"))
    assert catalogues.load("files", A) == catalogue("two")
    assert [path.name for path in (tmp_path / "catalogue").iterdir()] == [f"files-{A}.json"]


def test_another_daemon_finds_it(catalogues: Catalogues, tmp_path: Path) -> None:
    catalogues.save("files", A, catalogue("one"))
    assert Catalogues(tmp_path / "catalogue").load("files", A) == catalogue("one")


def set_time(directory: Path, server: str, digest: str, time: int) -> None:
    os.utime(directory / f"{server}-{digest}.json", (time, time))


def test_the_newest_one_of_a_server_is_its_own(catalogues: Catalogues, tmp_path: Path) -> None:
    catalogues.save("files", A, catalogue("old"))
    catalogues.save("files", B, catalogue("new"))
    set_time(tmp_path / "catalogue", "files", A, 1000)
    assert catalogues.newest("files") == catalogue("new")
    set_time(tmp_path / "catalogue", "files", B, 500)
    assert catalogues.newest("files") == catalogue("old")
    for other in ("files-x", "file", f"files-{A}", "files.x"):
        catalogues.save(other, A, catalogue("other"))
    assert catalogues.newest("files") == catalogue("old")


def test_a_damaged_one_is_passed_over(catalogues: Catalogues, tmp_path: Path) -> None:
    catalogues.save("files", A, catalogue("whole"))
    set_time(tmp_path / "catalogue", "files", A, 1000)
    (tmp_path / "catalogue" / f"files-{B}.json").write_bytes(b'{"format":1,"hand')
    assert catalogues.load("files", B) is None
    assert catalogues.newest("files") == catalogue("whole")


def test_only_the_newest_ones_are_kept(catalogues: Catalogues, tmp_path: Path) -> None:
    catalogues.save("other", A, catalogue("other"))
    for number in range(KEPT + 5):
        catalogues.save("files", f"{number:016x}", catalogue(str(number)))
        set_time(tmp_path / "catalogue", "files", f"{number:016x}", 1000 + number)
    catalogues.save("files", A, catalogue("last"))
    kept = [path.name for path in (tmp_path / "catalogue").iterdir() if path.name.startswith("files")]
    assert len(kept) == KEPT
    assert catalogues.load("files", f"{0:016x}") is None
    assert catalogues.load("files", f"{KEPT + 4:016x}") == catalogue(str(KEPT + 4))
    assert catalogues.newest("files") == catalogue("last")
    assert catalogues.load("other", A) == catalogue("other")


@pytest.mark.parametrize("how", ["file in the way", "parent is a file", "directory in the way", "disk full"])
def test_what_cannot_be_kept_is_logged_and_hurts_nobody(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "catalogue"
    match how:
        case "file in the way":
            directory.write_text("")
        case "parent is a file":
            directory.write_text("")
            directory = directory / "below"
        case "directory in the way":
            (directory / f"files-{A}.json").mkdir(parents=True)
        case "disk full":
            directory.mkdir()
            (directory / f"files-{A}.{os.getpid()}.tmp").symlink_to("/dev/full")
    catalogues = Catalogues(directory)
    with caplog.at_level(logging.WARNING):
        catalogues.save("files", A, catalogue("one"))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "cannot keep the catalogue of files"
    ]
    assert catalogues.load("files", A) is None
    assert catalogues.newest("files") is None
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_name_cannot_leave_the_directory(catalogues: Catalogues, tmp_path: Path) -> None:
    catalogues.save("../../etc/x", A, catalogue("one"))
    assert [path.name for path in (tmp_path / "catalogue").iterdir()] == [f".._.._etc_x-{A}.json"]
    assert catalogues.load("../../etc/x", A) == catalogue("one")
    assert catalogues.newest("../../etc/x") == catalogue("one")


def test_one_with_a_secret_is_not_kept(catalogues: Catalogues, caplog: pytest.LogCaptureFixture) -> None:
    masker.learn("s3cret-value", "vault:mine")
    catalogues.save("files", A, catalogue("with s3cret-value in it"))
    assert catalogues.load("files", A) is None
    [record] = caplog.records
    assert "vault:mine" in record.getMessage()
    assert "s3cret-value" not in record.getMessage()
    catalogues.save("files", A, catalogue("without"))
    assert catalogues.load("files", A) == catalogue("without")


def test_one_with_an_ordinary_word_is_kept(catalogues: Catalogues) -> None:
    masker.learn("postgres", "vault:word")
    catalogues.save("files", A, catalogue("queries postgres"))
    assert catalogues.load("files", A) == catalogue("queries postgres")
