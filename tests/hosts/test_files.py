"""Files of hosts: changed without touching what is not ours, shown without secrets, written in one step."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.errors import HostFileError
from supervisord_mcp.hosts.base import HostFile, Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS, find_hosts
from supervisord_mcp.hosts.edits import Replacement
from supervisord_mcp.hosts.files import Change, change, is_there, preview, read, read_content, write
from supervisord_mcp.hosts.masking import MASK
from tests.hosts.corpus import SHIM, Sample, adopted, samples
from tests.kit.required import as_person

SAMPLES = [sample for sample in samples() if any(entry.stdio for entry in sample.reading().entries)]
EACH = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.file.host.key}-{sample.name}")


@EACH
def test_an_adopted_entry_starts_the_shim_and_the_rest_is_the_same(sample: Sample) -> None:
    reading = sample.reading()
    after = read_content(sample.file, change(reading, adopted(reading)).after)
    assert after.problems == reading.problems or len(after.problems) == len(reading.problems)
    assert [(entry.name, entry.path) for entry in after.entries] == [(e.name, e.path) for e in reading.entries]
    for old, new in zip(reading.entries, after.entries, strict=True):
        if old.stdio:
            assert new.argv == SHIM
            # What a host hands on by a list of names stays.
            assert set(new.env) == {name for name, value in old.env.items() if f"${{{name}}}" == value} & set(new.env)
            assert (new.cwd, new.env_file, new.disabled, new.scope) == (None, None, old.disabled, old.scope)
        else:
            assert replace(new, line=old.line) == old


@EACH
def test_bytes_outside_of_the_entries_stay(sample: Sample) -> None:
    reading = sample.reading()
    after = change(reading, adopted(reading)).after
    first = min(entry.line for entry in reading.entries if entry.stdio) - 1
    # Nothing before the line of the first entry; that they end as they did tells that nothing was added or lost there.
    head = b"".join(reading.content.splitlines(keepends=True)[:first])
    assert after.startswith(head)
    assert after.startswith(b"\xef\xbb\xbf") == reading.content.startswith(b"\xef\xbb\xbf")
    assert after.endswith(b"\n") == reading.content.endswith(b"\n")
    ends = {line[-2:] == b"\r\n" for line in reading.content.splitlines(keepends=True) if line.endswith(b"\n")}
    assert {line[-2:] == b"\r\n" for line in after.splitlines(keepends=True) if line.endswith(b"\n")} <= ends
    for word in (b"//", b"/*", b"#"):
        assert after.count(word) <= reading.content.count(word)


@EACH
def test_one_entry_is_changed_and_the_others_are_not(sample: Sample) -> None:
    reading = sample.reading()
    for entry in reading.entries:
        if entry.stdio:
            changed = change(reading, {entry.path: Replacement(SHIM, {"SMCP_NOTE": 'a "b" $c'})})
            assert changed.paths == (entry.path,)
            for old, new in zip(reading.entries, read_content(sample.file, changed.after).entries, strict=True):
                assert replace(new, line=0, argv=(), env={}, cwd=None, env_file=None, unresolved=()) == replace(
                    old, line=0, argv=(), env={}, cwd=None, env_file=None, unresolved=()
                )
                if old is not entry:
                    assert replace(new, line=old.line) == old
                else:
                    assert new.env["SMCP_NOTE"]


@EACH
def test_a_preview_shows_the_shim_and_no_secret(sample: Sample) -> None:
    reading = sample.reading()
    shown = preview(change(reading, adopted(reading)))
    assert shown.startswith(f"--- {sample.file.path}\n+++ ")
    assert "\n+" in shown.partition("@@")[2]
    assert "/opt/smcp/shim.py" in shown
    for secret in (
        *("ghp_example", "hunter22", "sntrys_", "abc}def", "Zx8Q~", "figd_", "pa$$word", "tok_example", "abcdefgh"),
        *("secret-value", "tvly-dev", "your-key", "your_api_key", "bank-example", "gho_", "BSA-", "s3cr3t", "hf_ex"),
        *("YOUR-API-KEY", "例0123", "factory-example", "k$1$2"),
    ):
        assert secret not in shown


def test_secrets_that_are_named_are_hidden_everywhere(tmp_path: Path) -> None:
    file = _cursor(tmp_path, '{"mcpServers": {"a": {"command": "a", "args": ["k\\u00e9y \\"1\\"", "abc"]}}}')
    reading = read(file)
    shown = preview(change(reading, adopted(reading)), ['kéy "1"', "abc", "x"])
    assert f'"args": ["{MASK}", "{MASK}"]' in shown


def test_nothing_changes_nothing(tmp_path: Path) -> None:
    file = _cursor(tmp_path, '{"mcpServers": {}}')
    same = change(read(file), {})
    assert same.before == same.after
    assert preview(same) == ""
    before = file.path.stat()
    write(same)
    assert file.path.stat() == before


def test_variables_that_the_host_knows_may_stay() -> None:
    sample = next(s for s in SAMPLES if s.name == "variables/home/.copilot/mcp-config.json")
    reading = sample.reading()
    (entry,) = reading.entries
    new = Replacement(SHIM, {"NOTE": "1"}, keep={"SENTRY_ACCESS_TOKEN"})
    text = change(reading, {entry.path: new}).after.decode()
    assert '"env": {"SENTRY_ACCESS_TOKEN": "${SENTRY_ACCESS_TOKEN}", "NOTE": "1"}' in text


def test_what_does_not_parse_is_left_alone_and_reported(tmp_path: Path) -> None:
    for text, problem in (
        ('{\n  "mcpServers": {\n    "a": {"command": "x" "args": []}\n  }\n}', '3: column 26: "," or "}" expected'),
        ('{"mcpServers": {', '1: column 17: a key in double quotes or "}" expected at the end'),
        ('\ufeff{"a": "\\x"}', "1: column 8: not an escape sequence; a backslash is written twice"),
        ("{'a': 1}", '1: column 2: a key in double quotes or "}" expected'),
    ):
        file = _cursor(tmp_path, text)
        reading = read(file)
        assert [f"{found.line}: {found.message}" for found in reading.problems] == [problem]
        assert reading.entries == ()
        with pytest.raises(HostFileError, match="nothing was changed"):
            change(reading, {("mcpServers", "a"): Replacement(SHIM)})
        assert file.path.read_text() == text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe{\x00}\x00", "1: the file is UTF-16; save it as UTF-8"),
        (b'{\n"a": "\xe4"}', "2: not valid UTF-8; save the file as UTF-8"),
    ],
)
def test_another_encoding_is_reported(tmp_path: Path, content: bytes, problem: str) -> None:
    file = _cursor(tmp_path, "")
    file.path.write_bytes(content)
    assert [f"{found.line}: {found.message}" for found in read(file).problems] == [problem]


@pytest.mark.parametrize("text", ["", " \n\t", "\ufeff\n", "{}", "[]", "null", "1", '{"mcpServers": null}'])
def test_a_file_without_servers(tmp_path: Path, text: str) -> None:
    reading = read(_cursor(tmp_path, text))
    assert (reading.entries, reading.problems) == ((), ())


@pytest.mark.parametrize("text", ['{"mcpServers": []}', '{"mcpServers": "x"}', '{"mcpServers": 1}'])
def test_a_table_that_is_none_is_reported(tmp_path: Path, text: str) -> None:
    (problem,) = read(_cursor(tmp_path, text)).problems
    assert (problem.line, problem.key, problem.message) == (1, "mcpServers", "not a table of servers")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    file = _cursor(tmp_path, "{}")
    file.path.unlink()
    assert read(file).problems == ()
    file.path.symlink_to("nowhere")
    assert [problem.message for problem in read(file).problems] == ["the link leads to nowhere, which does not exist"]
    file.path.unlink()
    file.path.mkdir()
    assert [problem.message for problem in read(file).problems] == ["cannot be read: not a regular file"]


def test_a_link_and_the_rights_of_its_file_stay(tmp_path: Path) -> None:
    file = _cursor(tmp_path, '{"mcpServers": {"a": {"command": "a"}}}')
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    file.path.rename(real)
    real.chmod(0o640)
    file.path.symlink_to("../dotfiles/mcp.json")
    if os.geteuid() == 0:
        os.chown(real, 1234, 2345)
    before = real.stat()
    reading = read(file)
    new = change(reading, adopted(reading))
    write(new)
    assert os.readlink(file.path) == "../dotfiles/mcp.json"
    assert real.read_bytes() == new.after
    after = real.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (before.st_uid, before.st_gid, 0o640)
    assert sorted(os.listdir(real.parent)) == ["mcp.json"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = _cursor(tmp_path, '{"mcpServers": {"a": {"command": "a"}}}')
    reading = read(file)
    new = change(reading, adopted(reading))
    file.path.write_text('{"mcpServers": {"a": {"command": "b"}}}')
    with pytest.raises(HostFileError, match="changed by another program"):
        write(new)
    assert "b" in file.path.read_text()
    file.path.unlink()
    with pytest.raises(HostFileError, match="cannot be written: No such file"):
        write(new)
    assert not file.path.exists()


@pytest.mark.parametrize("save", ["in place", "renamed", "removed"])
def test_what_a_host_saves_while_we_write_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: str
) -> None:
    file = _cursor(tmp_path, '{"mcpServers": {"a": {"command": "a"}}}')
    reading = read(file)
    new = change(reading, adopted(reading))
    saved = '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}'

    def sync(_fd: int) -> None:
        # Our content is on the disk by now, and not yet in the place of the file.
        if save == "in place":
            file.path.write_text(saved)
        else:
            file.path.unlink()
        if save == "renamed":
            other = tmp_path / "other"
            other.write_text(saved)
            other.rename(file.path)

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(HostFileError, match="nothing was changed"):
        write(new)
    assert os.listdir(file.path.parent) == ([] if save == "removed" else ["mcp.json"])
    assert save == "removed" or file.path.read_text() == saved


def test_where_nobody_may_look_something_is_there_and_that_is_told(tmp_path: Path) -> None:
    (tmp_path / ".cursor").symlink_to(".cursor")
    file = HOSTS["cursor"].files(Surroundings(tmp_path))[0]
    assert is_there(file.path)
    assert [problem.message for problem in read(file).problems] == ["cannot be read: Too many levels of symbolic links"]
    (tmp_path / ".cursor").unlink()
    assert not is_there(file.path)
    (tmp_path / ".cursor").touch()
    assert not is_there(file.path)


@as_person
def test_a_directory_of_a_host_that_is_closed_to_us(tmp_path: Path) -> None:
    file = _cursor(tmp_path, "{}")
    file.path.parent.chmod(0)
    try:
        (found,) = find_hosts(Surroundings(tmp_path), ["cursor"])
        assert [one.path for one in found.files] == [file.path]
        assert [problem.message for problem in read(file).problems] == ["cannot be read: Permission denied"]
    finally:
        file.path.parent.chmod(0o700)


def test_what_a_killed_command_left_beside_a_file_goes(tmp_path: Path) -> None:
    file = _cursor(tmp_path, '{"mcpServers": {"a": {"command": "a"}}}')
    left = file.path.with_name(".mcp.json.a1_b2c3d.tmp")
    others = [file.path.with_name(name) for name in (".mcp.json.1234.tmp", "mcp.json.tmp", ".mcp.json.A1B2C3D4.tmp")]
    for path in (left, *others):
        path.write_text("a secret")
    reading = read(file)
    write(change(reading, adopted(reading)))
    assert not left.exists()
    assert all(path.exists() for path in others)


def test_an_entry_that_is_not_there_cannot_be_replaced(tmp_path: Path) -> None:
    file = _cursor(tmp_path, '{"mcpServers": {"a": {"url": "https://example.com"}}}')
    for path in (("mcpServers", "a"), ("mcpServers", "b"), ("servers", "a")):
        with pytest.raises(HostFileError, match="no entry with a command") as caught:
            change(read(file), {path: Replacement(SHIM)})
        assert str(file.path) in caught.value.message


def test_windows_programs_seen_from_wsl_are_marked(tmp_path: Path) -> None:
    where = Surroundings(tmp_path / "ann", windows_home=tmp_path / "Users" / "Ann")
    marked = {file.path: file.foreign for file in HOSTS["vscode"].files(where)}
    assert marked[tmp_path / "ann/.config/Code/User/mcp.json"] is False
    assert marked[tmp_path / "Users/Ann/AppData/Roaming/Code/User/mcp.json"] is True


def _cursor(tmp_path: Path, text: str) -> HostFile:
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return next(file for file in HOSTS["cursor"].files(Surroundings(tmp_path)) if file.path == path)


def test_a_change_knows_its_file(tmp_path: Path) -> None:
    file = _cursor(tmp_path, "{}")
    assert Change(file, b"", b"", ()).file.host is HOSTS["cursor"]
