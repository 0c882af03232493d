"""``smcp tap``: the messages of a server, as they pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from supervisord_mcp.cli.amounts import length, size
from supervisord_mcp.cli.client import connected
from supervisord_mcp.cli.output import console, in_a_line, print_json, print_line
from supervisord_mcp.cli.parameters import AsJson, ServerName
from supervisord_mcp.errors import SmcpError, UsageError
from supervisord_mcp.protocol import control, jsonrpc
from supervisord_mcp.protocol.tapping import Tap, TapRecord

#: So many bytes of a message are asked for where it is shown to a person, and so many characters of it shown.
_ASKED, _SHOWN = 4096, 300
#: Where each kind of message has its content.
_CONTENT: Final = {"request": "params", "notification": "params", "result": "result", "error": "error"}
_ARROWS: Final = {"from-host": "→", "to-host": "←", "to-server": "⇒", "from-server": "⇐"}


class Side(StrEnum):
    """Where messages are seen."""

    host = "host"
    server = "server"
    both = "both"


def tap(
    name: ServerName,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what passes from now on.")] = False,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="PATTERN", help="Only requests of this method and their answers: 'tools/*'."),
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", metavar="PATTERN", help="Only those of this host: cursor, 'claude*'.")
    ] = None,
    side: Annotated[
        Side, typer.Option("--side", help="Between hosts and smcp, between smcp and the server, or both.")
    ] = Side.host,
    raw: Annotated[bool, typer.Option("--raw", help="The messages alone, each whole, one a line.")] = False,
    as_json: AsJson = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write them to a new file too, for smcp replay.", dir_okay=False),
    ] = None,
) -> None:
    """Show the messages of a server: who says what to whom, and how long answers take.

    Without --follow it shows what was kept: nothing, unless kept_messages of its entry says how many. Values of secrets
    are not shown. → and ← is between a host and smcp, ⇒ and ⇐ between smcp and the server. JSON is one object a line.
    """
    if raw and as_json:
        raise UsageError("give --raw or --json, not both")
    operation = Tap(
        name=name,
        follow=follow,
        most=None if raw or as_json or save is not None else _ASKED,
        methods=tuple(method or ()),
        hosts=tuple(host or ()),
        side=side.value,
    )
    with connected() as client, _saving(save) as keep:
        for event in client.stream(operation):
            record = control.parse_result(event, TapRecord)
            keep(bytes(event))
            if as_json:
                print_json(event, indent=-1)
            elif raw:
                print_line(record.line)
            else:
                console().print(_line(record), soft_wrap=True)


@contextmanager
def _saving(path: Path | None) -> Iterator[Callable[[bytes], Any]]:
    """Give what writes a line into a new file that only its owner reads; what was written stays whatever happens."""
    if path is None:
        yield lambda _line: None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already", remedy="Name a new file, or remove that one.") from error
    except OSError as error:
        raise SmcpError(f"cannot write {path}: {error.strerror}") from error
    with open(descriptor, "wb", buffering=0) as file:

        def keep(line: bytes) -> None:
            rest = line + b"\n"
            try:
                while rest:
                    rest = rest[file.write(rest) or 0 :]
            except OSError as error:
                raise SmcpError(f"cannot write {path}: {error.strerror}") from error

        try:
            yield keep
        except SmcpError:
            if not os.fstat(file.fileno()).st_size:  # nothing came: its name is free for the next attempt
                path.unlink(missing_ok=True)
            raise


def _line(record: TapRecord) -> Text:
    when = datetime.fromtimestamp(record.time, UTC).strftime("%H:%M:%S.%f")[:-3] + "Z"
    who = f"{record.host}#{record.session}" if record.session else record.instance
    words = [when, f"{who:16}", _ARROWS[record.direction], _what(record), size(record.size)]
    if record.seconds is not None:
        words.append(length(record.seconds))
    text = Text(in_a_line("  ".join(words)), "bold red" if record.kind == "error" else "bold")
    return text.append("  " + _content(record), "not bold")


def _what(record: TapRecord) -> str:
    """Say what a message is, and of what request it is the answer."""
    about = " ".join(word for word in (record.method, record.tool) if word)
    identity = f"id={record.id}" if record.id else ""
    kind = "" if record.kind in ("request", "notification") and about else record.kind
    return " ".join(word for word in (about, kind, identity) if word)


def _content(record: TapRecord) -> str:
    """Return the beginning of what a message carries; all of one that cannot be taken apart."""
    members = jsonrpc.members_of(record.line.encode()) if not record.cut else {}
    carried = members.get(_CONTENT.get(record.kind, ""))
    if carried is not None:
        text = bytes(carried).decode()
    else:
        # Of a message that was understood and carries nothing everything is said.
        text = "" if members and record.kind in _CONTENT else record.line
    whole = in_a_line(text)
    if len(whole) <= _SHOWN and not record.cut:
        return whole
    return f"{whole[:_SHOWN]}… ({size(record.size)})"
