"""Project files are trusted with one content, under one name."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from supervisord_mcp.config.trust import Trust, digest, placed
from supervisord_mcp.errors import NotTrustedError, SmcpError
from tests.config.places import paths_in
from tests.kit.required import as_person


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust.of(paths_in(tmp_path / "smcp"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "project" / ".mcp.json"
    found.parent.mkdir()
    found.write_bytes(b"{}")
    return found


def test_a_file_is_trusted_as_it_was_seen_and_no_longer(trust: Trust, file: Path) -> None:
    assert trust.standing(file) == "unknown"
    trust.add(file, b"{}")
    assert (trust.standing(file), trust.knows(file, b"{}"), trust.knows(file, b"{ }")) == ("trusted", True, False)
    trust.check(file)
    file.write_bytes(b"{ }")
    assert trust.standing(file) == "changed"
    file.write_bytes(b"{}")
    assert trust.standing(file) == "trusted"
    file.unlink()
    assert trust.standing(file) == "missing"


def test_what_was_seen_counts_and_not_what_is_there_meanwhile(trust: Trust, file: Path) -> None:
    trust.add(file, b"seen")
    assert trust.standing(file) == "changed"


def test_trust_is_taken_back(trust: Trust, file: Path) -> None:
    trust.add(file, b"{}")
    assert [trust.revoke(file), trust.revoke(file)] == [True, False]
    assert trust.standing(file) == "unknown"
    assert trust.files() == {}


@pytest.mark.parametrize(
    ("content", "told"), [(None, "not there any more"), (b"{ }", "changed since"), (b"", "not trusted")]
)
def test_why_it_is_not_trusted(trust: Trust, file: Path, content: bytes | None, told: str) -> None:
    if content is None:
        file.unlink()
    elif content:
        trust.add(file, b"{}")
        file.write_bytes(content)
    with pytest.raises(NotTrustedError, match=told) as caught:
        trust.check(file)
    assert caught.value.exit_status == 8
    assert caught.value.remedy


def test_a_file_has_one_name_whatever_leads_to_its_directory(trust: Trust, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "link"
    other.symlink_to(file.parent)
    trust.add(other / file.name, b"{}")
    assert trust.standing(file) == "trusted"
    assert placed(other / "." / file.name) == file


def test_a_link_that_leads_to_another_file_is_another_content(trust: Trust, file: Path) -> None:
    link = file.with_name("linked.json")
    link.symlink_to(file)
    trust.add(link, b"{}")
    assert (trust.standing(link), trust.standing(file)) == ("trusted", "unknown")
    evil = file.with_name("evil.json")
    evil.write_bytes(b"evil")
    link.unlink()
    link.symlink_to(evil)
    assert trust.standing(link) == "changed"


def test_the_record_is_for_the_person_alone_and_holds_no_content(trust: Trust, file: Path) -> None:
    trust.add(file, b"a secret")
    assert stat.S_IMODE(trust.file.stat().st_mode) == 0o600
    text = trust.file.read_text()
    assert digest(b"a secret") in text
    assert "a secret" not in text


def test_a_broken_record_trusts_nothing_and_is_told(trust: Trust, file: Path) -> None:
    trust.file.parent.mkdir(parents=True)
    trust.file.write_text("[")
    for action in (trust.files, lambda: trust.check(file), lambda: trust.add(file, b"{}")):
        with pytest.raises(SmcpError, match="cannot read which project files") as caught:
            action()
        assert not isinstance(caught.value, NotTrustedError)
    assert trust.file.read_text() == "["


@as_person
def test_a_record_that_cannot_be_written_is_told(trust: Trust, file: Path) -> None:
    trust.file.parent.mkdir(parents=True)
    trust.lock.touch()
    trust.file.parent.chmod(0o500)
    with pytest.raises(SmcpError, match="cannot keep"):
        trust.add(file, b"{}")
