"""Every sample of every host is adopted, with all that this means, and given back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from supervisord_mcp.adoption.adopting import adopt_file, drafts, import_servers
from supervisord_mcp.adoption.gathering import drifted, elsewhere
from supervisord_mcp.adoption.survey import Way, way
from supervisord_mcp.config.load import load
from supervisord_mcp.hosts.catalogue import HOSTS
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.files import read
from tests.adoption.machine import Machine
from tests.hosts.corpus import cases

CASES = [(key, case) for key in HOSTS for case in cases(key)]


@pytest.mark.parametrize(("key", "case"), CASES, ids=[f"{key}-{case.name}" for key, case in CASES])
def test_a_sample_is_adopted_and_given_back(machine: Machine, key: str, case: Path) -> None:
    for source, target in ((case / "home", machine.home), (case / "project", machine.project)):
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
    for reading in machine.gathered(key).readings:
        if reading.file.scope is Scope.PROJECT:
            machine.trust(reading.file.path)
    gathered, plan = machine.gathered(key), machine.plan(key)
    before = {reading.file.path: reading.content for reading in gathered.readings}
    assert [draft.trouble for draft in drafts(gathered.readings, plan, machine.environ) if draft.change is None] == []
    assert import_servers(plan, machine.world).failed == {}
    # An entry is adopted, or it is told why not; none is passed over.
    left = {(one.entry.file, one.entry.path): one for one in plan.left}
    for reading in gathered.readings:
        if elsewhere(reading.file):
            assert adopt_file(reading, plan, machine.world) is False
            continue
        mine = [entry for entry in reading.entries if plan.server_of(entry) is not None]
        assert {entry.path for entry in reading.entries if entry not in mine} == {
            path for file, path in left if file == reading.file.path
        }
        assert adopt_file(reading, plan, machine.world) is bool(mine)
        after = {entry.path: entry for entry in read(reading.file).entries}
        assert all(way(after[entry.path])[0] is Way.THROUGH for entry in mine)
        assert all(after[entry.path].disabled == entry.disabled for entry in reading.entries)
    servers = load(machine.paths).config.servers
    assert {way(entry)[1] for one in gathered.readings for entry in read(one.file).entries} - {""} <= servers.keys()
    assert drifted(machine.person, machine.records.adopted()) == []
    machine.release()
    assert {file: file.read_bytes() for file in before} == before
