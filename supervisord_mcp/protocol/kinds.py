"""Every kind of event with what belongs to it: what `smcp events` and the stream ``events`` of the control socket tell.

The table is the promise that other programs build on: a kind or a field that is in use keeps its name and its meaning.
More may come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """What an event of one kind says, and the fields of its ``data``, each with its meaning.

    ``of`` is what it is about: the daemon, a server (which is in ``server``), or an instance (also in ``instance``).
    """

    meaning: str
    of: str
    fields: Mapping[str, str]


def _daemon(meaning: str, **fields: str) -> Kind:
    return Kind(meaning, "daemon", MappingProxyType(fields))


def _server(meaning: str, **fields: str) -> Kind:
    return Kind(meaning, "server", MappingProxyType(fields))


def _instance(meaning: str, **fields: str) -> Kind:
    return Kind(meaning, "instance", MappingProxyType({"instance": "its key", **fields}))


#: The kinds by name, in the order in which a person reads them.
KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "state": _instance(
            "its state changed",
            **{"from": "the state before", "to": "the state now"},
            why="the event of the lifecycle: start, stop, restart, demand, spawned, spawnfailed, ready, exited, idle,"
            " timerfired, replace",
            cause="what went wrong, where it went to BACKOFF, EXITED or FATAL, or could not be started for want of"
            " something outside",
            generation="the number of the run",
            sessions="how many use it",
        ),
        "installing": _instance("its package is being installed"),
        "not-started": _server("it is to be started with the daemon and cannot be", cause="the reason"),
        "catalogue": _instance("it said what it offers", changed="the lists that are not what they were"),
        "health": _instance("it runs and does not answer as it should, or does again", trouble="empty if it does"),
        "limit": _instance(
            "it exceeded a limit",
            limit="its name in the configuration",
            cause="in words",
            outcome="ended, refused or warned",
            policy="what `breach` says",
        ),
        "session-opened": _server(
            "a host or a command connected",
            session="its number",
            pid="the process that connected",
            project="its project, or null",
            resumed="whether it goes on after a restart of the daemon",
        ),
        "session-greeted": _server(
            "the host said who it is",
            session="its number",
            host="its name",
            version="its version",
            revision="the revision of MCP that it speaks",
        ),
        "session-housed": _server(
            "it is served by an instance from now on, when it begins and whenever it moves",
            session="its number",
            instance="the key of the instance",
        ),
        "session-closed": _server("it is over", session="its number", reason="why, empty if the host left"),
        "session-refused": _server(
            "a host was sent away", pid="the process that connected", code="the code of the error", cause="its text"
        ),
        "credentials-given": _instance("it was given secrets", secrets="each as its variable and where it is"),
        "credentials-refused": _instance("a secret cannot be read, so it does not start", cause="the reason"),
        "secrets-changed": _daemon(
            "secrets have new values", secrets="where they are", restarted="the servers that were restarted for it"
        ),
        "vault-unlocked": _daemon("the vault was opened", restarted="the servers that were started again for it"),
        "echo": _instance(
            "it sent a secret to a host (`warn_on_echo`)", secrets="which", count="how often, the one most often"
        ),
        "not-trusted": _server("its project file is not trusted as it is now, so nothing of it starts", cause="why"),
        "trust-changed": _daemon(
            "a person trusts project files, or no more", files="their paths", trusted="true or false"
        ),
        "egress": _server(
            "its network was refused something, or (audited) reached it",
            host="the name",
            port="the port, 0 for none",
            outcome="passed, refused or failed",
            cause="why",
        ),
        "syscall-refused": _server(
            "it was refused a system call (audited)", call="its name", answer="what it got", count="how often by now"
        ),
        "file-missed": _server("it looked for a file that is not shown (audited)", path="which", use="read or write"),
        "image-changed": _server(
            "the name of its image stands for another one than the one that runs",
            image="the name",
            held="the one that runs",
            found="the other one",
        ),
        "host-changed": _server(
            "a host changed an adopted file (`daemon.watch_hosts`)",
            host="which",
            file="its file",
            name="the entry",
            change="in words",
        ),
        "config-reloaded": _daemon(
            "another configuration is in force", added="servers", changed="servers", removed="servers"
        ),
        "config-faulty": _daemon("the files have faults, and what was in force stays", problems="each with its line"),
        "logging": _daemon(
            "a log or the audit cannot be written, or can be again",
            file="which",
            trouble="why, empty if it can",
            lost="how many lines were lost by now",
        ),
        "observer-dropped": _daemon("what watches failed or is too slow, and is let go", observer="which", cause="why"),
        "daemon-started": _daemon("it listens", pid="its process", version="of smcp"),
        "daemon-crashed": _daemon("the daemon before this one did not end in order", pid="its process"),
        "daemon-ending": _daemon("it ends", cause="why"),
    }
)


def reference() -> str:
    """Return the table of the kinds for the README."""
    rows = ["| kind | what happened | `data` |", "|---|---|---|"]
    for name, kind in KINDS.items():
        told = "; ".join(f"`{field}`: {meaning}" for field, meaning in kind.fields.items())
        rows.append(f"| `{name}` | {kind.of}: {kind.meaning} | {told} |")
    return "\n".join((*rows, ""))
