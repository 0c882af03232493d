"""A host in a process of its own: raw JSON-RPC over pipes with blocking reads, as small as a client in Python can be.

Run as a script, without the project: ``client.py COMMAND WORD…`` starts the command and is then told what to do, one
JSON object a line on stdin (``{"do": "calls", …}``), and answers each with one on stdout. It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

#: How long after a failed call the next one is tried, in seconds.
AGAIN = 0.001


class Client:
    """One connection to a server, which is started with it."""

    def __init__(self, command: list[str]) -> None:
        self._started = time.perf_counter()
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        files = [(os.POSIX_SPAWN_DUP2, theirs_in, 0), (os.POSIX_SPAWN_DUP2, theirs_out, 1)]
        self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=files)
        os.close(theirs_in)
        os.close(theirs_out)
        self._out = ours_out
        self._in = os.fdopen(ours_in, "rb", buffering=1 << 16)
        self._id = 0
        self._status: int | None = None

    def open(self) -> dict[str, Any]:
        """Shake hands; return the seconds from the start of the command to the first reply."""
        info = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        self._request("initialize", params)
        seconds = time.perf_counter() - self._started
        os.write(self._out, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return {"seconds": seconds, "pid": self.pid}

    def close(self) -> dict[str, Any]:
        """Close the pipes as a host does, and wait for the command to end."""
        if self._status is None:
            os.close(self._out)
            self._in.close()
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return {"status": self._status}

    def calls(self, count: int) -> dict[str, Any]:
        """Call a tool one time after the other; return the nanoseconds of each call."""
        clock = time.perf_counter_ns
        taken = []
        for _ in range(count):
            before = clock()
            self._echo()
            taken.append(clock() - before)
        return {"nanoseconds": taken}

    def flood(self, start: float, seconds: float) -> dict[str, Any]:
        """From a moment of the monotonic clock on, call as often as possible; return how many calls were answered."""
        time.sleep(max(0.0, start - time.monotonic()))
        # One that is woken late calls for as long as the others, and at least once.
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            self._echo()
            count += 1
        return {"calls": count}

    def blob(self, size: int) -> dict[str, Any]:
        """Fetch a large result; return the seconds until it was read and decoded."""
        before = time.perf_counter()
        answer = self._call("blob", {"bytes": size})
        seconds = time.perf_counter() - before
        assert len(answer["result"]["content"][0]["text"]) == size
        return {"seconds": seconds}

    def kill(self, pid: int) -> dict[str, Any]:
        """Kill a server; return the seconds until a call was answered again, and how many calls failed before."""
        before = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        failed = 0
        while "error" in self._call("echo", {"text": "again"}):
            failed += 1
            time.sleep(AGAIN)
        return {"seconds": time.perf_counter() - before, "failed": failed}

    def _echo(self) -> None:
        text = f"call {self._id}"
        answer = self._call("echo", {"text": text})
        assert answer["result"]["content"][0]["text"] == text, answer

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._request("tools/call", {"name": tool, "arguments": arguments})

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        os.write(self._out, json.dumps(request).encode() + b"\n")
        while True:
            line = self._in.readline()
            if not line:
                raise EOFError(f"the server hung up instead of answering {method}")
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._id:
                return answer


def main() -> None:
    """Do what stdin says."""
    client = Client(sys.argv[1:])
    try:
        for line in sys.stdin:
            order = json.loads(line)
            done = getattr(client, order.pop("do"))(**order)
            sys.stdout.write(json.dumps(done) + "\n")
            sys.stdout.flush()
    finally:
        client.close()


if __name__ == "__main__":
    main()
