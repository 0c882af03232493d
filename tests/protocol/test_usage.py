"""What is told of usage passes over the wire as it is."""

from __future__ import annotations

from msgspec import Raw

from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.usage import CallUsage, Figures, ProcessUsage, ServerUsage, UsageResult


def test_an_answer_passes_over_the_wire() -> None:
    figures = Figures(cpu=1.5, memory=1 << 20, sent=3, processes=(ProcessUsage(pid=4, name="node"),))
    server = ServerUsage(name="git", figures=figures, tools=(CallUsage(name="log", calls=2, p50=0.1),))
    result = UsageResult(at=10.0, servers=(server,))
    reply = control.parse_reply(control.result_line(1, result))
    assert isinstance(reply.result, Raw)
    assert control.parse_result(reply.result, UsageResult) == result


def test_an_operation_passes_over_the_wire() -> None:
    operation = control.Usage(name="git", fresh=True, since=12.5)
    assert control.parse_operation(control.parse_request(control.request_line(1, operation))) == operation
