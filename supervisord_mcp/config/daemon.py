"""The settings of the daemon itself, and what a table of the configuration is."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from supervisord_mcp.config.fields import (
    Duration,
    IpAddresses,
    Kind,
    Limit,
    Listen,
    SearchDirectory,
    Size,
    Uids,
)
from supervisord_mcp.config.listening import Tcp, parse_address

LogLevel = Literal["debug", "info", "warning", "error"]


class Table(BaseModel):
    """A table of the configuration: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=False)


class DaemonConfig(Table):
    """The daemon itself."""

    idle_exit: Limit = Field(
        default=600.0,
        description="A daemon that a host or a command started on demand ends when it had no session, no command and"
        " nothing to do for this long, and with it servers that only wait for their `idle_timeout`; a server that runs"
        ' with `start = "eager"` or `idle_timeout = "off"` keeps it. "off" keeps it running, and so does `smcp up`.',
    )
    max_message: Size = Field(
        default=64 << 20, ge=1024, description="The longest message that passes; a longer one costs one error."
    )
    write_timeout: Duration = Field(
        default=30.0, gt=0, description="How long a server may leave its stdin unread before it is ended."
    )
    client_buffer: Size = Field(
        default=4 << 20, ge=1024, description="How much may wait for a host that does not read; more is lost."
    )
    path: Annotated[tuple[SearchDirectory, ...], Kind("list of directories")] = Field(
        default=(), description="Directories searched for commands, before PATH.", examples=[["~/.local/bin"]]
    )
    uids: Uids = Field(
        default=range(60706, 61184),
        description="User ids for the servers of a daemon that is run by root: each sandbox has one of its own and is"
        " never root; what it is given of root's files is lent to it. Read at the start.",
    )
    log_level: LogLevel = Field(default="info", description="The least important messages that the daemon logs.")
    journal: StrictBool = Field(
        default=True,
        description="Whether what is in the logs of servers goes to the journal of systemd as well, where the extra"
        " `systemd` is installed: `journalctl SMCP_SERVER=NAME`.",
    )
    reload: StrictBool = Field(default=True, description="Load the configuration again when one of its files changes.")
    watch_hosts: StrictBool = Field(
        default=False,
        description="Watch adopted files of hosts: `smcp status` and `events` name what `smcp adopt` could take over.",
    )


class Audit(Table):
    """The record of the calls of tools, one JSON object a line; see `smcp audit`."""

    enabled: StrictBool = Field(default=False, description="Whether calls are recorded.")
    arguments: Literal["digest", "masked"] = Field(
        default="digest",
        description="What is kept of arguments. `digest`: the SHA-256 of their text. `masked`: also the arguments"
        " themselves up to 8 KiB, without the secrets that smcp knows.",
    )
    max_size: Size = Field(default=10 << 20, ge=1024, description="The file is rotated before it grows beyond this.")
    keep: StrictInt = Field(default=10, ge=1, le=100, description="Files kept, the current one included.")


class Metrics(Table):
    """What is measured. Nothing of it costs anything while no server runs and nobody calls."""

    usage: StrictBool = Field(
        default=True, description="Whether it is measured what servers use, also while nobody looks."
    )
    calls: StrictBool = Field(default=True, description="Whether the calls of hosts are counted.")
    listen: Listen = Field(
        default=None,
        description="Where Prometheus fetches metrics: an address of this machine with a port, or a unix socket that"
        ' only you can open. "off": nowhere.',
        examples=["127.0.0.1:9464"],
    )
    exposed: IpAddresses = Field(
        default=(),
        description="Addresses that other machines reach, on which `listen` may be. Whoever comes reads the names of"
        " your servers, tools and hosts; there is no password.",
        examples=[["192.0.2.7"]],
    )

    @model_validator(mode="after")
    def _exposed_by_name(self) -> Self:
        address = None if self.listen is None else parse_address(self.listen)
        if isinstance(address, Tcp) and not address.is_loopback and address.host not in self.exposed:
            raise ValueError(
                f"listen: other machines reach {address.host}, and would read what your servers do;"
                f' use 127.0.0.1, or allow it by name: exposed = ["{address.host}"]'
            )
        return self
