"""``smcp import`` and ``smcp adopt``: take over the servers that hosts have, after showing what that means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from supervisord_mcp.cli.client import reload_daemon
from supervisord_mcp.cli.confirming import DryRun, Yes, check_answerable, confirm
from supervisord_mcp.cli.output import console, count, print_error, printable
from supervisord_mcp.cli.parameters import Project
from supervisord_mcp.cli.person import Hosts, alone, person, vault_for, world
from supervisord_mcp.cli.planned import planned, show, show_drafts, tell
from supervisord_mcp.cli.trying import disabled, tried
from supervisord_mcp.errors import SmcpError

if TYPE_CHECKING:
    from supervisord_mcp.adoption.adopting import Imported, World
    from supervisord_mcp.adoption.importing import Plan, Server
    from supervisord_mcp.hosts.files import Reading


class Trial(NamedTuple):
    """That servers are tried before hosts are told to use them, and in which project the person is."""

    project: Path | None


Network = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="none|loopback|internet|host",
        help="What every imported server reaches, instead of what it seems to need.",
    ),
]


def import_servers(
    context: typer.Context,
    hosts: Hosts = None,
    *,
    project: Project = None,
    network: Network = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy the servers of hosts into the configuration of smcp; the files of the hosts stay as they are.

    What several hosts start in the same way becomes one server. Secrets that stand in the open go to the vault.
    """
    from supervisord_mcp.adoption import adopting

    alone(context, dry_run=dry_run)
    gathered, plan = planned(hosts, project, network)
    new = [server for server in plan.servers if not server.there]
    check_answerable(yes=yes, dry_run=dry_run or not new)
    show(gathered, plan)
    if not new:
        console().print("nothing to import")
        return
    vault = vault_for(plan, ask=not dry_run)
    if dry_run:
        return
    confirm(f"Import {count(len(new), 'server')}?", yes=yes)
    imported = adopting.import_servers(plan, world(vault))
    reload_daemon()
    if tell(imported):
        raise typer.Exit(1)


def adopt(
    context: typer.Context,
    hosts: Hosts = None,
    *,
    project: Project = None,
    network: Network = None,
    untried: Annotated[bool, typer.Option("--untried", help="Do not start the servers before.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Import the servers of hosts, and let the hosts reach them through smcp.

    Each server is started once before: one that does not work in the sandbox stays with its host. In the files of the
    hosts only the entries of these servers change, and smcp release gives each file back as it was. Files of a project
    are taken only if you trust them (smcp trust).
    """
    from supervisord_mcp.adoption import adopting

    alone(context, dry_run=dry_run)
    gathered, plan = planned(hosts, project, network)
    whose, whole = person(project), plan
    if not untried:
        plan = plan.without({server.name for server in plan.servers if server.lacking and not disabled(server)})
    drafts = adopting.drafts(gathered.readings, plan, whose.environ)
    check_answerable(yes=yes, dry_run=dry_run or not drafts)
    show(gathered, whole)
    if not drafts:
        console().print("nothing to adopt")
        return
    show_drafts(drafts, plan)
    stuck = {(draft.reading.file.host.key, draft.reading.file.path) for draft in drafts if draft.change is None}
    plan = plan.without(adopting.only_in(plan, stuck))
    if len(stuck) == len(drafts):
        console().print("nothing to adopt")
        raise typer.Exit(1)
    vault = vault_for(plan, ask=not dry_run)
    if dry_run:
        return
    confirm(f"Adopt {count(len(drafts) - len(stuck), 'file')}?", yes=yes)
    where = world(vault)
    imported = adopting.import_servers(plan, where)
    failed = tell(imported) or bool(stuck)
    # Before a host can ask for one of the servers.
    reload_daemon()
    # Of the others it was told why.
    readings = [one for one in gathered.readings if (one.file.host.key, one.file.path) not in stuck]
    try:
        written, missed = _hand_over(readings, plan, imported, where, None if untried else Trial(whose.project))
    except KeyboardInterrupt:
        # What no file of a host names would only be left over: nobody asked for it alone.
        _take_back(plan.servers, imported, where)
        console().print(
            "interrupted: what was imported for files that are not adopted is removed again", soft_wrap=True
        )
        raise
    if written:
        console().print("restart the hosts, or let them reconnect; smcp release gives the files back", soft_wrap=True)
    if failed or missed:
        raise typer.Exit(1)


def _hand_over(
    readings: Iterable[Reading], plan: Plan, imported: Imported, where: World, trial: Trial | None
) -> tuple[set[Path], bool]:
    """Try the imported servers, and change the files that name them.

    Return the files that changed, and whether something stays with its host that was to be taken over.
    """
    from supervisord_mcp.adoption import adopting

    working, failed = plan.without(imported.failed), False
    if trial is not None:
        broken = tried((server for server in working.servers if not disabled(server)), trial.project)
        for name, error in broken.items():
            remedy = error.remedy if name not in imported.made else _without_retry(error.remedy)
            print_error(SmcpError(f"'{name}' stays with its host: {error.message}", remedy=remedy))
        if broken:
            _take_back([server for server in working.servers if server.name in broken], imported, where)
        working, failed = working.without(broken), bool(broken)
    written: set[Path] = set()
    for reading in readings:
        path = reading.file.path
        try:
            if adopting.adopt_file(reading, working, where, written):
                written.add(path)
                console().print(f"adopted {printable(str(path))}", soft_wrap=True)
        except SmcpError as error:
            failed = True
            why = error.message.removeprefix(f"{path}: ")
            print_error(SmcpError(f"{path} stays as it is: {why}", remedy=error.remedy))
    # What no file of a host names would only be left over.
    unused = [server for server in working.servers if written.isdisjoint(one.file for one in server.sources)]
    if unused:
        _take_back(unused, imported, where)
    return written, failed


def _without_retry(remedy: str) -> str:
    """Return a remedy without the promise of another try: the server will not be there any more."""
    from supervisord_mcp.reasons import TRIES_AGAIN

    return "\n".join(line for line in remedy.split("\n") if not line.startswith(TRIES_AGAIN))


def _take_back(servers: Iterable[Server], imported: Imported, where: World) -> None:
    """Remove what stays with its host from the configuration again, unless it was there before."""
    from supervisord_mcp.adoption import adopting

    for server in servers:
        if server.name not in imported.made:
            continue
        try:
            adopting.take_back(server, imported.made[server.name], where)
        except SmcpError as error:
            print_error(SmcpError(f"'{server.name}' is not wholly removed again: {error.message}", remedy=error.remedy))
    reload_daemon()
