"""A fault met by a host is recorded, and met again without the host: by commands, in both eras."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.sdk import modern_host
from tests.e2e.test_commands import Person
from tests.kit.bounded import bounded
from tests.kit.daemon import bare, daemon


@bounded(90)
async def test_a_fault_is_recorded_and_met_again(tmp_path: Path) -> None:
    file = tmp_path / "fault.jsonl"
    async with daemon(bare("s", entry={"kept_messages": 100}), bare("quiet")) as d:
        person = Person(d)
        host = await d.connected("s")
        assert (await host.call("echo", value="x")).text == "x"
        assert (await host.call("crash", code=3, stderr="oh no")).error is not None
        async with modern_host(d, "s") as other:
            await other.call_tool("echo", {"value": "y"})
        shown = (await person.run("tap s --method tools/*")).out.splitlines()
        assert sum("→  tools/call echo " in line for line in shown) == 2
        assert any("←  tools/call crash error " in line and "oh no" in line for line in shown)
        saved = (await person.run(f"tap s --save {file} --raw")).out.splitlines()
        records = [json.loads(line) for line in file.read_text().splitlines()]
        assert [record["line"] for record in records] == saved

        again = (await person.run(f"replay {file} s --json")).out.splitlines()
        found = {(one["session"], one["method"], one["tool"]): one["verdict"] for one in map(json.loads, again)}
        assert len({session for session, _, _ in found}) == 2
        assert set(found.values()) == {"same"}
        assert "crash" in {tool for _, _, tool in found}

        ran = await person.run("tap quiet", expected=1)
        assert "no messages of 'quiet' are kept" in ran.err
