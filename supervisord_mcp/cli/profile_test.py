"""``smcp profile test``: what a server can do inside of a profile, tried and not assumed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.output import console, count, print_json, printable
from supervisord_mcp.cli.parameters import AsJson, profile_names
from supervisord_mcp.errors import UsageError

if TYPE_CHECKING:
    from supervisord_mcp.launch import Launch
    from supervisord_mcp.probes import trial
    from supervisord_mcp.probes.expected import Situation
    from supervisord_mcp.probes.trial import Result
    from supervisord_mcp.runtimes.base import LaunchSpec

_SERVER = "trial"


def try_profile(
    name: Annotated[str, typer.Argument(help="Name of a profile.", metavar="NAME", autocompletion=profile_names)],
    *,
    everything: Annotated[bool, typer.Option("--all", help="List what was denied too, with the error.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try about two hundred things in a server with a profile, and show what is denied and what works.

    The server is a Python that also gets a project to write and a directory to read, both made for the trial, and is
    confronted with a home full of secrets, neighbours, sockets and services of the same kind. Nothing of yours is
    touched. The exit status is 1 where something succeeds that the profile does not grant, or fails that it grants.
    """
    from supervisord_mcp.probes.expected import situation

    with _ground() as base:
        results, launch = _results(name, base)
    found = situation(launch.spec, reduced=launch.isolation == "reduced")
    rows = list(_rows(results, found))
    wrong = [row for row in rows if row["wrong"]]
    if as_json:
        print_json(msgspec.json.encode({"profile": name, "runtime": launch.runtime.name, "attempts": rows}))
    else:
        _print(rows, everything=everything)
        told = count(len(wrong), "attempt")
        ending = f"{told} came out otherwise than the profile says" if wrong else "all of it as the profile says"
        denied = sum(row["outcome"] == "denied" for row in rows)
        console().print(f"{len(rows)} attempts, {denied} denied, {ending}", soft_wrap=True)
    if wrong:
        raise typer.Exit(1)


def _results(name: str, base: Path) -> tuple[dict[str, Result], Launch]:
    from supervisord_mcp.probes import bait, trial
    from supervisord_mcp.runtimes import orphans

    launch = _launch(name, base)
    if launch.isolation == "none":
        raise UsageError(f"the profile '{name}' isolates nothing, so there is nothing to try")
    with bait.laid(base, launch.spec.limits) as facts:
        orphans.become_subreaper()
        granted = launch.spec
        tried = trial.spec(
            facts,
            _python(),
            mounts=granted.mounts,
            network=granted.network,
            seccomp=granted.seccomp,
            limits=granted.limits,
        )
        return asyncio.run(_tried(launch, tried, facts)), launch


async def _tried(launch: Launch, spec: LaunchSpec, facts: trial.Facts) -> dict[str, Result]:
    from supervisord_mcp.probes import trial

    try:
        return await trial.tried(launch.runtime, spec, facts, trial.names())
    finally:
        await launch.runtime.aclose()


def _launch(name: str, base: Path) -> Launch:
    from supervisord_mcp.config.granting import granted
    from supervisord_mcp.config.models import Mount, ServerConfig
    from supervisord_mcp.config.profiles import find_profiles
    from supervisord_mcp.facts import Facts
    from supervisord_mcp.launch import Launcher, make_runtimes
    from supervisord_mcp.runtimes.identity import COUNT, FIRST

    for granted_place in ("project", "shown"):
        (base / granted_place).mkdir()
        (base / granted_place).chmod(0o777)
    places = paths()
    effective = find_profiles(places).effective(name)
    project = str(base / "project")
    entry: dict[str, Any] = {"command": (_python(),), "profile": name, "mounts": (Mount(path=str(base / "shown")),)}
    if "${project}" not in {mount.path for mount in effective.profile.mounts}:
        entry["mounts"] += (Mount(path=project, access="rw"),)
    if effective.profile.confirm:
        entry["confirm"] = name

    config = granted(_SERVER, ServerConfig(**entry), effective, effective.problem).config
    runtimes = make_runtimes(base / "private", uids=range(FIRST, FIRST + COUNT))
    launcher = Launcher(places, os.environ, "", (), runtimes)
    return launcher.resolve(_SERVER, config, Facts(_SERVER, project=project, environ=os.environ))


@contextmanager
def _ground() -> Iterator[Path]:
    """Make a directory that every user may enter: a server of a daemon of root has one of its own."""
    base = Path(tempfile.mkdtemp(prefix="smcp-trial-", dir="/var/tmp"))
    base.chmod(0o711)
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _python() -> str:
    """Return a Python that another user can run as well."""
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    return sys.executable if system is None or os.geteuid() != 0 else system


def _rows(results: dict[str, Result], found: Situation) -> Iterator[dict[str, Any]]:
    from supervisord_mcp.probes import trial
    from supervisord_mcp.probes.expected import wanted, why

    for group in trial.groups():
        for name in group.names:
            result, want = results[name], wanted(name, found)
            wrong = (want == "deny" and result.outcome == "open") or (want == "allow" and result.outcome != "open")
            yield {
                "group": group.title,
                "attempt": name,
                "outcome": result.outcome,
                "detail": result.detail,
                "wanted": want,
                "why": why(name, found),
                "wrong": wrong,
            }


def _print(rows: list[dict[str, Any]], *, everything: bool) -> None:
    screen = console()
    for title in dict.fromkeys(row["group"] for row in rows):
        group = [row for row in rows if row["group"] == title]
        denied = sum(row["outcome"] == "denied" for row in group)
        screen.print(f"{title}: {denied} of {len(group)} denied", style="bold", soft_wrap=True)
        for row in group:
            if row["outcome"] == "open" or row["wrong"] or everything:
                mark = "WRONG " if row["wrong"] else ""
                note = row["why"] or row["detail"] or ("granted" if row["wanted"] == "allow" else "")
                ending = f" ({note})" if note else ""
                screen.print(printable(f"  {mark}{row['outcome']}: {row['attempt']}{ending}"), soft_wrap=True)
