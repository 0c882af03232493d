"""Moving bytes for descriptors that cannot be handed over, and answering a host in need, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import IO

import pytest

from supervisord_mcp import pump

LIMIT = 20
PATH = f"import sys; sys.path.append({str(Path(pump.__file__).parent)!r}); import pump, os, socket, threading\n"


def run(program: str, data: bytes | IO[bytes], stdout: int | IO[bytes] = subprocess.PIPE) -> tuple[int, bytes, bytes]:
    """Run a program with the pump in it; return its status, stdout and stderr."""
    command = [sys.executable, "-I", "-S", "-c", PATH + textwrap.dedent(program)]
    stdin = subprocess.PIPE if isinstance(data, bytes) else data
    with subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(data if isinstance(data, bytes) else None, timeout=LIMIT)
    return process.returncode, out or b"", err


#: What stands for a daemon: sends back what comes, slowly at first, and ends the session at the end of file.
DAEMON = """
    ours, theirs = socket.socketpair()
    moved = pump.Pump(feed=FEED, drain=DRAIN)
    def serve(source, sink):
        while data := os.read(source, 1000):
            rest = data
            while rest:
                rest = rest[os.write(sink, rest):]
        os.close(sink)
        theirs.send(b"0")
    threading.Thread(target=serve, args=(os.dup(moved.fds[0]), os.dup(moved.fds[1]))).start()
    moved.move(ours)
    assert ours.recv(1) == b"0"
    moved.finish()
"""


def daemon(*, feed: bool, drain: bool) -> str:
    """Return the program for these two choices."""
    return DAEMON.replace("FEED", str(feed)).replace("DRAIN", str(drain))


def test_both_directions(tmp_path: Path) -> None:
    data = b"".join(b"line %d\n" % number for number in range(100_000))
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        assert run(daemon(feed=True, drain=True), source, sink) == (0, b"", b"")
    assert (tmp_path / "out").read_bytes() == data


@pytest.mark.parametrize(("feed", "drain"), [(True, False), (False, True), (False, False)])
def test_one_direction_or_none(feed: bool, drain: bool) -> None:
    data = b"x" * 500_000
    assert run(daemon(feed=feed, drain=drain), data) == (0, data, b"")


def test_bytes_in_the_pipe_wait_for_the_next_daemon() -> None:
    program = """
    ours, theirs = socket.socketpair()
    moved = pump.Pump(feed=True, drain=False)
    theirs.send(b"!")
    moved.move(ours)
    ours.recv(1)
    theirs.close()
    ours, theirs = socket.socketpair()
    def serve():
        os.write(1, os.read(moved.fds[0], 100))
        theirs.send(b"0")
    threading.Thread(target=serve).start()
    moved.move(ours)
    """
    assert run(program, b"kept") == (0, b"kept", b"")


def test_a_stdout_that_fails_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        status, _, err = run(daemon(feed=True, drain=True) + "\n    os._exit(0)", b"word", full)
    assert status != 0 or b"No space left" in err


ANSWER = "pump._FIRST_REQUEST = 1.0; pump.answer_host('why')"


@pytest.mark.parametrize(
    ("said", "ids"),
    [
        (b'{"id":1,"method":"initialize"}\n', [1]),
        (b'{"id":"a","method":"initialize"}', ["a"]),
        (
            b'{"id":123456789012345678901,"method":"x"}\n{"method":"n"}\n{"id":null,"method":"x"}\n',
            [123456789012345678901],
        ),
        (b'{"id":1,"method":"server/discover"}\n{"id":2,"method":"initialize"}\n', [1, 2]),
        (b'{"id":1,"result":{}}\n[1]\nnonsense\n\xff\n{"id":0,"method":"x"}\n', [0]),
        (b"[" * 100_000 + b"\n", []),
        (b"", []),
    ],
)
def test_every_request_of_a_host_in_need_is_answered(said: bytes, ids: list[object]) -> None:
    status, out, err = run(ANSWER, said)
    assert (status, err) == (0, b"")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == ids
    assert all(answer["error"] == {"code": -32603, "message": "why"} for answer in answers)


def test_a_host_that_says_nothing_is_not_waited_for_long() -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PATH + ANSWER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.wait(LIMIT) == 0


def test_a_host_that_is_gone_is_no_error() -> None:
    command = [sys.executable, "-I", "-S", "-c", PATH + ANSWER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.communicate(b'{"id":1,"method":"initialize"}\n', timeout=LIMIT)
    assert process.returncode == 0


def test_descriptors_that_the_daemon_made_non_blocking() -> None:
    program = "os.set_blocking(0, False); os.set_blocking(1, False); pump.answer_host('x' * 200_000)"
    status, out, _ = run(program, b'{"id":1,"method":"initialize"}\n')
    assert status == 0
    assert len(json.loads(out)["error"]["message"]) == 200_000
