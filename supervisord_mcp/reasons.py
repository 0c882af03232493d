"""What hosts and people are told where there is no child for them: why none comes soon, and why the last one ended."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import FatalServerError, LaunchError, NotRunningError, SmcpError
from supervisord_mcp.policy.lifecycle import ENDING, After, Lifecycle, State
from supervisord_mcp.runtimes.base import ExitStatus

#: How the line of a remedy begins that says that nothing needs to be done.
TRIES_AGAIN = "smcp tries again"
#: How long a request waits for a restart that is due, in seconds; a later one is answered with an error at once.
PATIENCE = 2.0
#: What failed less than this ago failed for the one who asks, in seconds.
_NEWS = 1.0
_TAIL = "; last lines of stderr:\n"


@dataclass(frozen=True, slots=True)
class Reason:
    """An error for a host: the text for a person, and the data for programs."""

    text: str
    data: dict[str, Any]

    @property
    def masked(self) -> Reason:
        """The same without any value that the masker knows."""
        return Reason(masker.mask(self.text), masker.mask_data(self.data))


@dataclass(frozen=True, slots=True)
class LastWords:
    """What a child said before it ended: the end of its stderr, and of what was no message on its stdout, a summary."""

    stderr: str = ""
    noise: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: whether nobody wanted it to, why, and what hosts with open requests are told."""

    unasked: bool
    cause: str
    reason: Reason


def unavailable(server: str, life: Lifecycle, now: float, project: str | None = None) -> Reason | None:
    """Return why no child will come soon, for those who wait for it, or None if one will.

    ``project`` is that of the instance, if it has one: a person who reads this may be anywhere.
    """
    match life.state:
        case State.STOPPED:
            where = f" in {project}" if project else ""
            return Reason(
                f"server '{server}' is stopped{where}; {_remedy(server, project)}", {"reason": "server_stopped"}
            )
        case State.FATAL:
            text = (
                f"server '{server}' gave up {_ago(now - life.since)} and is not restarted any more:"
                f" {life.cause}\n{_remedy(server, project)}"
            )
            return Reason(text, {"reason": "server_fatal"})
        case State.EXITED:
            return Reason(f"server '{server}' has ended: {life.cause}", {"reason": "server_exited"})
        case State.BACKOFF:
            wait = (life.retry_at or now) - now
            if wait > PATIENCE:
                text = f"server '{server}' failed and is started again in {wait:.0f} s: {life.cause}"
                return Reason(text, {"reason": "server_backoff", "retryAfter": round(wait, 1)})
    return None


def failure(server: str, life: Lifecycle, known: SmcpError | None, now: float, project: str | None = None) -> SmcpError:
    """Return the error for who waited for a start: that of the last one, with its time if it was somebody else's.

    ``known`` is what the last start failed with, if it is known better than as `Lifecycle.cause`.
    """
    error = known or LaunchError(f"server '{server}' failed: {life.cause}")
    if life.state is State.BACKOFF:
        wait = max((life.retry_at or now) - now, 0.0)
        note = f"{TRIES_AGAIN} in {wait:.0f} s, and gives up once the restart budget is spent"
    elif life.state is State.ASLEEP:
        note = f"{TRIES_AGAIN} with the next call"
    elif now - life.since >= _NEWS:
        note = f"that was {_ago(now - life.since)}, and it is not tried again by itself; {_remedy(server, project)}"
    else:
        return error
    told = LaunchError(error.message, remedy="\n".join(filter(None, (error.remedy, note))))
    told.code, told.exit_status = error.code, error.exit_status
    if life.state in (State.BACKOFF, State.ASLEEP) and told.exit_status == FatalServerError.exit_status:
        told.exit_status = NotRunningError.exit_status  # it has not given up
    return told


def joined(failures: Sequence[tuple[str, SmcpError]], *, named: bool) -> SmcpError:
    """Given at least one failure with its server, return one error that says everything, with the code of the first.

    ``named`` puts the name of the server before each: they were asked for together.
    """
    _, first = failures[0]
    if len(failures) == 1 and not named:
        return first
    told = [f"{name}: {error}" if named else str(error) for name, error in failures]
    error = SmcpError("\n".join(told))
    error.code, error.exit_status = first.code, first.exit_status
    return error


def ended(server: str, life: Lifecycle, status: ExitStatus | None, trouble: str, words: LastWords) -> Ending:
    """Given the state in which a child ended, how, what it was killed for, and what it had said, return it all."""
    tail = words.stderr
    ending = life.state in ENDING
    if ending and life.after is not After.CRASH:
        again = life.after is After.SPAWN
        code, verb = ("server_restarted", "restarted") if again else ("server_stopped", "stopped")
        return Ending(False, verb, Reason(f"server '{server}' was {verb}", {"reason": code, **_exit(status)}))
    cause = (life.cause if ending else trouble) or (str(status) if status is not None else "it was abandoned")
    data = {"reason": "server_exited", **_exit(status)}
    if words.noise and life.state is not State.RUNNING:
        cause = f"{cause}; {words.noise}"
    if tail:
        data["stderrTail"] = tail
        cause = f"{cause}{_TAIL}{tail}"
    cause = masker.mask(cause)
    reason = Reason(f"server '{server}' {'failed to start' if ending else 'ended'}: {cause}", data)
    return Ending(True, cause, reason.masked)


def brief(cause: str) -> str:
    """Return the first line of a cause, without the announcement of lines that follow it."""
    return cause.partition(_TAIL)[0].partition("\n")[0]


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago" if seconds >= _NEWS else "just now"


def _exit(status: ExitStatus | None) -> dict[str, Any]:
    return {} if status is None else {"exitCode": status.code, "signal": status.signal}


def _remedy(server: str, project: str | None) -> str:
    where = f" --project {shlex.quote(project)}" if project else ""
    return f"start it with: smcp start {server}{where}"
