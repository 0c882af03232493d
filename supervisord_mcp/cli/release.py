"""``smcp release``: give the files of hosts back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from supervisord_mcp.cli.client import reload_daemon
from supervisord_mcp.cli.confirming import DryRun, Yes, check_answerable, confirm
from supervisord_mcp.cli.output import console, count, print_error, printable
from supervisord_mcp.cli.person import Hosts, alone, person, world
from supervisord_mcp.errors import ConfigError, SmcpError

if TYPE_CHECKING:
    from supervisord_mcp.adoption.releasing import Release


def release(
    context: typer.Context,
    hosts: Hosts = None,
    *,
    remove: Annotated[
        bool, typer.Option("--remove", help="Also remove the servers that no adopted host uses any more.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Undo smcp adopt: hosts start their servers themselves again.

    A file that nobody changed since becomes what it was, to the last byte. In one that was changed, only the entries
    that adopt replaced are put back; where that is not clear, the file stays as it is and the error names the entry.
    The servers stay in the configuration of smcp unless --remove is given.
    """
    from supervisord_mcp.adoption import releasing
    from supervisord_mcp.adoption.records import Records

    alone(context, dry_run=dry_run)
    where = world()
    records = Records.of(where.paths)
    if not dry_run:
        records.sweep()
    found = releasing.releases(records, person(None).where, tuple(hosts or ()))
    if not found:
        console().print("nothing is adopted")
        return
    check_answerable(yes=yes, dry_run=dry_run)
    for one in found:
        _show(one)
    if dry_run:
        return
    confirm(f"Give back {count(len(found), 'file')}?", yes=yes)
    done: list[Release] = []
    failed = False
    for one in found:
        try:
            releasing.release_file(one, where, person(None).where)
            done.append(one)
        except SmcpError as error:
            failed = True
            remedy = f"{error.remedy}\n  how it was: {releasing.backups(where.paths, one)}".lstrip("\n ")
            why = error.message.removeprefix(f"{one.file}: ")
            print_error(SmcpError(f"{one.file} stays as it is: {why}", remedy=remedy))
    if remove:
        _remove(_unused(done))
    elif done:
        _tell_left(done)
    if failed:
        raise typer.Exit(1)


def _show(one: Release) -> None:
    from supervisord_mcp.adoption.releasing import backups
    from supervisord_mcp.adoption.survey import shown_change

    if one.gone:
        text = f"{one.file} is gone; how it was stays in {backups(world().paths, one)}"
    elif one.change is None:
        text = f"{one.file} stays as it is: {one.trouble}"
    elif one.exact:
        text = f"{one.file}: every byte becomes what it was"
    else:
        text = f"{one.file} was changed since; only the entries are put back\n{shown_change(one.change)}".rstrip("\n")
    console().print(printable(text), soft_wrap=True)


def _tell_left(done: list[Release]) -> None:
    try:
        unused = _unused(done)
    except ConfigError:  # it is no matter of the hosts, whose files are given back
        return
    if unused:
        text = f"these servers stay in smcp, and no host uses them: {', '.join(unused)} (smcp remove NAME)"
        console().print(printable(text), soft_wrap=True)


def _unused(done: list[Release]) -> list[str]:
    """Return the servers that only the released entries named."""
    from supervisord_mcp.adoption.gathering import gather
    from supervisord_mcp.adoption.records import Records
    from supervisord_mcp.adoption.releasing import unused_servers
    from supervisord_mcp.config.load import load

    places = world().paths
    released = [record for one in done for record in one.records]
    # An entry may name a server without a record: a copy that somebody made in the host, or one written by hand.
    entries = gather(person(None)).entries
    return unused_servers(load(places).config.servers, released, Records.of(places).adopted(), entries)


def _remove(names: list[str]) -> None:
    """Remove servers from the configuration."""
    from supervisord_mcp.config import edit

    for name in names:
        edit.remove_server(world().paths, name)
        console().print(f"removed the server {name}", soft_wrap=True)
    reload_daemon()
