"""What the table looks like: a summary by group, and every attempt below it for who wants to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supervisord_mcp.probes import trial
from supervisord_mcp.probes.expected import Situation, wanted, why
from supervisord_mcp.probes.trial import Result

BEGIN = "<!-- attempts: made by python -m contrib.probes, do not edit by hand -->\n"
END = "<!-- end of attempts -->"
_SANDBOX, _REDUCED = Situation(), Situation(reduced=True)


@dataclass(frozen=True, slots=True)
class Column:
    """One isolation: its title, what came of each attempt, and what was to be expected, None where nothing was."""

    title: str
    results: dict[str, Result]
    situation: Situation | None


def with_table(readme: str, columns: Sequence[Column], heading: str) -> str:
    """Given the README and the results, return the README with the table between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("README.md has lost the markers of the table of attempts")
    return f"{before}{begin}\n{table(columns, heading)}\n\n{end}{after}"


def table(columns: Sequence[Column], heading: str) -> str:
    """Return the summary and the whole table."""
    titles = " | ".join(column.title for column in columns)
    lines = [
        f"Attempts that a server should fail in, and how many succeeded ({heading}):",
        "",
        f"| | attempts | {titles} |",
        f"|---|---:|{'---:|' * len(columns)}",
    ]
    for group in trial.groups():
        names = [name for name in group.names if wanted(name, _SANDBOX) == "deny"]
        cells = [str(sum(column.results[name].outcome == "open" for name in names)) for column in columns]
        lines.append(f"| {group.title} | {len(names)} | {' | '.join(cells)} |")
    names = [name for name in trial.names() if wanted(name, _SANDBOX) == "deny"]
    cells = [f"**{sum(column.results[name].outcome == 'open' for name in names)}**" for column in columns]
    lines += [f"| all | {len(names)} | {' | '.join(cells)} |", ""]
    lines += ["<details><summary>Every attempt</summary>", "", _legend(), ""]
    lines += [f"| attempt | wanted | {titles} |", f"|---|---|{'---|' * len(columns)}"]
    for group in trial.groups():
        for name in group.names:
            cells = [_cell(column.results[name]) for column in columns]
            lines.append(f"| {name} | {_WORDS[wanted(name, _SANDBOX)]} | {' | '.join(cells)} |")
    lines += ["", "What may end either way, and why:", ""]
    for name in trial.names():
        if text := why(name, _SANDBOX) or why(name, _REDUCED):
            only = "" if why(name, _SANDBOX) else " (Landlock only)"
            lines.append(f"- {name}{only}: {text}")
    return "\n".join([*lines, "", "</details>"])


_WORDS = {"deny": "no", "allow": "yes", "free": "either"}


def _legend() -> str:
    return (
        "`·` was denied, **open** succeeded, `-` cannot be tried on that machine."
        " A container has files of its own at the paths of the system; they count as open."
    )


def _cell(result: Result) -> str:
    return {"open": "**open**", "denied": "·", "absent": "-"}[result.outcome]
