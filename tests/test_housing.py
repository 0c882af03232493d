"""Which instances tell nothing any more."""

from __future__ import annotations

from pathlib import Path

from supervisord_mcp.facts import Facts
from supervisord_mcp.housing import forgettable
from tests.kit.bounded import bounded
from tests.kit.estate import estate

LIMIT = 40


@bounded(LIMIT)
async def test_the_last_of_a_shared_server_tells_how_it_was(tmp_path: Path) -> None:
    servers = {"s": {"entry": {"env": {"TOKEN": "${TOKEN:-}"}}}, "p": {"entry": {"scope": "project"}}}
    async with estate(tmp_path, servers) as one:
        housed = one.supervisor._housed
        supervisor = one.supervisor
        await one.greeted("s", environ={"TOKEN": "used"})
        origins = [Facts("s", environ={"TOKEN": str(number)}) for number in range(2)]
        for facts in (*origins, Facts("p", "/tmp")):
            supervisor.house(supervisor.plan(facts), facts, supervisor.next_key())
        assert [key.server for key in forgettable(housed)] == ["s", "s", "p"]
        (used,) = [instance for instance in one.instances("s") if instance.sessions]
        alone = {key: housing for key, housing in housed.items() if housing.instance is not used}
        assert [key.server for key in forgettable(alone)] == ["s", "p"], "the last one stays"
