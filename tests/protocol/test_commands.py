"""Commands are values: they are compared, taken apart by position, and cannot be changed."""

from __future__ import annotations

import pytest

from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.commands import Command, Note, ToServer, ToSession, Weight


def test_commands_are_taken_apart_by_position() -> None:
    answered = Call(1, b"1")
    match ToSession(1, b"x\n", closes=(answered,)):
        case ToSession(session, data, weight, closes):
            assert (session, data, weight, closes) == (1, b"x\n", Weight.MUST, (answered,))


@pytest.mark.parametrize("command", [ToServer(b"x"), ToSession(1, b"x"), Note("noise", "x")])
def test_commands_are_values(command: Command) -> None:
    names = type(command).__match_args__
    assert command == type(command)(*(getattr(command, name) for name in names))
    assert hash(command)
    with pytest.raises(AttributeError):
        setattr(command, names[0], None)
