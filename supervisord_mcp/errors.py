"""Every exception that somebody catches, with the stable code and the exit status a person sees."""

from __future__ import annotations

from dataclasses import dataclass


class SmcpError(Exception):
    """A failure with a message for a person: what happened, where, and what to do.

    ``code`` is stable and meant for programs; ``exit_status`` is what a command that meets the error exits with.
    """

    code = "failed"
    exit_status = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__("\n  ".join((message, *remedy.splitlines())))
        self.message = message
        self.remedy = remedy


class UsageError(SmcpError):
    """The words of a command do not fit together."""

    code = "usage"
    exit_status = 2


class NoDaemonError(SmcpError):
    """No daemon runs, or it cannot be reached."""

    code = "no-daemon"
    exit_status = 3


class DaemonAliveError(SmcpError):
    """Another daemon already holds the lock."""

    code = "daemon-alive"
    exit_status = 1


class UnknownServerError(SmcpError):
    """The configuration has no server of that name."""

    code = "unknown-server"
    exit_status = 4


class NotRunningError(SmcpError):
    """The server has no running instance, or stopped while a call was open."""

    code = "not-running"
    exit_status = 5


class FatalServerError(SmcpError):
    """The server spent its restart budget or cannot be started at all."""

    code = "fatal"
    exit_status = 6


class IsolationError(SmcpError):
    """The promised isolation cannot be set up on this machine, so the server was not started."""

    code = "isolation"
    exit_status = 7


class NotTrustedError(SmcpError):
    """A server comes from a project file that nobody trusted, or not with the content that it has now."""

    code = "not-trusted"
    exit_status = 8


class LaunchError(SmcpError):
    """A child could not be started. ``retryable`` is false where trying again cannot help (ENOENT, EACCES).

    ``unreachable`` is true where only the network kept it from being installed.
    """

    code = "launch"
    exit_status = 6

    def __init__(self, message: str, *, remedy: str = "", retryable: bool = True, unreachable: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.retryable = retryable
        self.unreachable = unreachable


class HostFileError(SmcpError):
    """A file of a host cannot be changed, or not given back, without harm to what its owner wrote."""

    code = "host-file"


class SecretError(SmcpError):
    """A secret cannot be had from its source, or not be kept there. No message of it ever holds the value.

    It is never tried again by itself: what is locked or missing needs a person.
    """

    code = "secret"
    exit_status = 1
    retryable = False


class SecretTakenError(SecretError):
    """The name of a secret already stands for another value."""

    code = "secret-taken"


class FramingError(SmcpError):
    """Bytes that are not one line of JSON-RPC; ``rpc_code`` is the JSON-RPC error code for the answer."""

    code = "framing"

    def __init__(self, message: str, rpc_code: int) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a configuration file, placed as exactly as the file allows."""

    file: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class ConfigError(SmcpError):
    """The configuration cannot be used; ``problems`` has every fault at once."""

    code = "config"
    exit_status = 2

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
