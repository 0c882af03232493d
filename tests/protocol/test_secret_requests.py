"""What commands ask of the daemon about secrets, on the wire."""

from __future__ import annotations

import pytest
from msgspec import Raw

from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import Operation
from supervisord_mcp.protocol.secret_requests import (
    GrantCheck,
    SecretChanged,
    SecretChangedResult,
    SecretCheck,
    SecretCheckResult,
    SecretUnlock,
)

OPERATIONS: tuple[Operation, ...] = (
    SecretChanged(secrets=("vault:a", "env:B"), only_failed=True),
    SecretCheck(names=("github",)),
    SecretUnlock(passphrase="correct horse"),
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_each_arrives_as_it_was_sent(operation: Operation) -> None:
    request = control.parse_request(control.request_line(1, operation).rstrip())
    assert request.op.startswith("secret-")
    assert control.parse_operation(request) == operation
    assert not control.concerns(operation, "github")


@pytest.mark.parametrize(
    "result",
    [
        SecretChangedResult(restarted=("a",)),
        SecretCheckResult(grants=(GrantCheck(server="s", variable="V", secret="vault:x", problem="p", remedy="r"),)),
    ],
    ids=lambda result: type(result).__name__,
)
def test_each_answer_arrives(result: SecretChangedResult | SecretCheckResult) -> None:
    reply = control.parse_reply(control.result_line(1, result).rstrip())
    assert isinstance(reply.result, Raw)
    assert control.parse_result(reply.result, type(result)) == result


def test_a_passphrase_is_in_no_description() -> None:
    assert "horse" not in f"{OPERATIONS[2]!r} {OPERATIONS[2]}"
