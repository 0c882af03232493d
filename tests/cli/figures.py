"""An answer of the daemon about usage, with everything in it."""

from __future__ import annotations

from supervisord_mcp.protocol.usage import (
    CallUsage,
    Figures,
    InstanceUsage,
    PointUsage,
    ProcessUsage,
    Saved,
    ServerUsage,
    Starts,
    UsageResult,
)

MIB = 1 << 20
AT = 1_800_000_000.0

NODE = ProcessUsage(pid=4242, parent=1, name="node", cpu=12.5, memory=90 * MIB, threads=11, files=30)
SHELL = ProcessUsage(pid=4243, parent=4242, name="sh", memory=MIB, threads=1, files=3)
BUSY = Figures(
    cpu=12.5,
    load=0.425,
    memory=91 * MIB,
    private=80 * MIB,
    resident=130 * MIB,
    threads=12,
    files=33,
    sockets=4,
    read=5 * MIB,
    written=7 * MIB,
    sent=1000,
    received=2000,
    throttled=3.5,
    cpu_pressure=12.4,
    memory_pressure=0.2,
    processes=(NODE, SHELL),
)
CALLS = CallUsage(calls=120, pending=1, errors=3, timeouts=1, asked=9000, told=80_000, p50=0.004, p95=0.02, last=65.0)


def history(peak: float = 0.5) -> tuple[PointUsage, ...]:
    """Return the points of ten minutes, with a gap and a start."""
    return tuple(
        PointUsage(
            at=AT - 600 + 5 * slot,
            seconds=5.0,
            cpu=5 * peak * slot / 120,
            load=peak * slot / 120,
            memory=(50 + slot) * MIB,
            starts=int(slot in (0, 60)),
        )
        for slot in range(120)
        if not 30 <= slot < 60
    )


GIT = ServerUsage(
    name="git",
    state="RUNNING",
    sessions=3,
    figures=BUSY,
    cpu=3661.0,
    total=CALLS,
    tools=(CallUsage(name="git_log", calls=100, p50=0.004), CallUsage(name="git_diff", calls=20)),
    hosts=(CallUsage(name="editor", calls=120),),
    starts=Starts(count=2, on_demand=1, restarts=1, seconds=3.0, last_seconds=1.0),
    saved=Saved(processes=4, memory=160 * MIB, basis="a guess"),
    breaches={"memory": 2},
    last_error="killed by SIGKILL (memory limit 512M)\nmore",
    instances=(InstanceUsage(key="git/abc", state="RUNNING", pid=4242, sessions=3, figures=BUSY),),
    step=5.0,
    history=history(),
)
IDLE = ServerUsage(name="idle", state="STOPPED")
RESULT = UsageResult(
    at=AT,
    daemon=Figures(load=0.002, memory=38 * MIB, files=40),
    servers=(GIT, IDLE),
    saved=Saved(processes=4, memory=160 * MIB, basis="the sum"),
)
