"""A fake MCP server of the handshake revisions that misbehaves as its switches tell it.

Run as ``python -I -S fserver.py [JSON | @FILE]``; the environment variable FSRV may hold the JSON instead. It uses the
standard library only and reads nothing of the product. Every event (started, frame in, frame out, signal, end of file)
goes to the file named by the switch ``journal`` as one JSON line, each in a single write with O_APPEND, so that several
processes may share a file. What the switches mean stands beside the code that obeys them: process and pipe here,
protocol in `fserver_protocol`, tools in `fserver_tools`, the revision without a handshake in `fserver_modern`.

Switches of the process: journal, starts_file + per_start (list of switches for the first, second … start; the last
one stays), sleep_start(ms), need_env(name), print_env, exclusive_lock(path), listen_port(n), threads(n), alloc(mb),
stderr{bytes, cr_only, newline}, exit_before_init{code, stderr}, exit_after{ms | n, code, signal, stderr},
exit_idle(ms), spawn_child(setsid | group | holds_stdout | reads_stdin, or a list), child_ignores_term,
ignore_eof, busy_at_eof(ms), wait_at_eof, ignore_term, fork_on_term, epipe_loop, fragile, not_reading{after},
chunk(bytes), crlf, bom, raw_unicode, noise{kind, place}, frames_on_stderr, buffered_stdout.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Switches = dict[str, Any]
    Message = dict[str, Any]

#: Lines longer than this are journalled by size and head only.
JOURNAL_RAW = 8192
NOISE = {
    "text": b"Server is listening (this is no JSON)",
    "partial": b'{"jsonrpc":"2.0","id":',
    "blank": b"",
    "scalar": b"42",
    "binary": b"\xff\xfe\x00\x80",
}


def read_switches() -> Switches:
    """Given argv and FSRV, return the switches, with those of this start merged in."""
    text = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("FSRV", "{}")
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:
            text = file.read()
    switches: Switches = json.loads(text or "{}")
    if "starts_file" in switches:
        fd = os.open(switches["starts_file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, b".")
        start = os.fstat(fd).st_size - 1
        os.close(fd)
        scripts = switches.get("per_start") or [{}]
        switches.update(scripts[min(start, len(scripts) - 1)])
    return switches


def open_fds() -> list[int]:
    """Return the file descriptors that are open now."""
    found = []
    for fd in range(256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return found


class Process:
    """The process side of the fake server: journal, pipes, timers, signals, and the faults of all of these."""

    def __init__(self, switches: Switches) -> None:
        self.switches = switches
        self.inherited = open_fds()
        self.run = os.urandom(4).hex()
        self.journal_fd = -1
        if "journal" in switches:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self.journal_fd = os.open(switches["journal"], flags, 0o600)
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.timer_count = self.lines = 0
        self.buffer = b""
        self.held = b""
        self.reading = True
        self.eof = False
        self.frames = 0
        self.first_output = True
        self.last_activity = time.monotonic()
        self.on_line: Callable[[bytes], None] = lambda line: None
        self.may_leave: Callable[[], bool] = lambda: True

    # -- journal ---------------------------------------------------------------------------------------------------

    def journal(self, event: str, **more: Any) -> None:
        """Append one event to the journal in a single write."""
        if self.journal_fd < 0:
            return
        record = {"at": time.monotonic(), "run": self.run, "pid": os.getpid(), "event": event, **more}
        os.write(self.journal_fd, json.dumps(record).encode() + b"\n")

    def journal_frame(self, event: str, line: bytes, message: object) -> None:
        """Journal a frame: the envelope for everybody, the raw bytes (as latin-1) where they are short."""
        more: Message = {"size": len(line), "raw": line[:JOURNAL_RAW].decode("latin-1")}
        if isinstance(message, dict):
            more |= {key: message[key] for key in ("id", "method", "error") if key in message}
            if len(line) <= JOURNAL_RAW:
                more |= {key: message[key] for key in ("params", "result") if key in message}
        self.journal(event, **more)

    # -- leaving ---------------------------------------------------------------------------------------------------

    def leave(self, code: int, why: str) -> NoReturn:
        """Flush what is held, say why in the journal, and exit at once."""
        if self.held:
            self.write(self.held)
        self.journal("leaving", why=why, code=code)
        os._exit(code)

    def die(self, number: int) -> None:
        """End by a signal as if it had never been caught (as process 1 of a namespace: exit 128 + number)."""
        self.journal("leaving", why="signal", signal=number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(0.05)
        os._exit(128 + number)

    def leave_as_told(self, how: Switches, why: str) -> None:
        """Leave by the code or signal in a switch, with its text on stderr."""
        if how.get("stderr"):
            self.write(str(how["stderr"]).encode() + b"\n", 2)
        if "signal" in how:
            number = how["signal"]
            if number in (signal.SIGKILL, signal.SIGSTOP):
                self.journal("leaving", why=why, signal=number)
                os.kill(os.getpid(), number)
                os._exit(128 + number)
            self.die(number)
        self.leave(int(how.get("code", 1)), why)

    # -- output ----------------------------------------------------------------------------------------------------

    def write(self, data: bytes, fd: int = 1) -> None:
        """Write everything, blocking like a simple server does."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BrokenPipeError:
                if self.switches.get("epipe_loop"):
                    time.sleep(0.005)
                    continue
                self.leave(1, "EPIPE")

    def send_line(self, line: bytes) -> None:
        """Write one frame with the pipe faults of the switches."""
        end = b"\r\n" if self.switches.get("crlf") else b"\n"
        data = line + end
        noise = self.switches.get("noise")
        if noise:
            junk = NOISE[noise.get("kind", "text")]
            match noise.get("place", "before"):
                case "before":
                    data = junk + end + data
                case "after":
                    data = data + junk + end
                case "same_line":
                    data = junk + data
        if self.first_output and self.switches.get("bom"):
            data = b"\xef\xbb\xbf" + data
        self.first_output = False
        if self.switches.get("frames_on_stderr"):
            self.write(data, 2)
        size = int(self.switches.get("chunk", 0))
        if self.switches.get("buffered_stdout"):
            self.held += data
            if len(self.held) >= 8192:
                data, self.held = self.held, b""
                self.write(data)
        elif size:
            for at in range(0, len(data), size):
                self.write(data[at : at + size])
        else:
            self.write(data)

    def write_stderr(self, how: Switches) -> None:
        """Write so many bytes to stderr: numbered lines, carriage returns only, or one endless line."""
        total = int(how.get("bytes", 0))
        while total > 0 and how.get("newline", True) and not how.get("cr_only"):
            # No line is like the one before: those would be counted instead of written.
            lines = b"".join(b"%09d%s\n" % (number, b"e" * 90) for number in range(self.lines, self.lines + 80))
            self.lines += 80
            self.write(lines[: min(total, len(lines))], 2)
            total -= len(lines)
        end = b"\r" if how.get("cr_only") else b"\n" if how.get("newline", True) else b"e"
        piece = (b"e" * 99 + end) * 80
        while total > 0:
            self.write(piece[: min(total, len(piece))], 2)
            total -= len(piece)

    # -- timers and the loop ---------------------------------------------------------------------------------------

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do the action so many seconds from now; equal times keep their order."""
        self.timer_count += 1
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.timer_count, action))

    def loop(self) -> NoReturn:
        """Read lines and run timers for ever."""
        idle = self.switches.get("exit_idle")
        while True:
            now = time.monotonic()
            while self.timers and self.timers[0][0] <= now:
                heapq.heappop(self.timers)[2]()
                now = time.monotonic()
            if idle is not None and now - self.last_activity >= idle / 1000:
                self.leave(0, "idle")
            if self.eof and self.may_leave():
                self.end_of_input()
            waits = [self.timers[0][0] - now] if self.timers else []
            if idle is not None:
                waits.append(self.last_activity + idle / 1000 - now)
            watched = [0] if self.reading and not self.eof else []
            ready, _, _ = select.select(watched, [], [], max(0.0, min(waits)) if waits else 3600.0)
            if ready:
                self.read()

    def read(self) -> None:
        """Take what stdin has, and hand on whole lines."""
        chunk = os.read(0, 1 << 18)
        if not chunk:
            self.journal("eof", rest=len(self.buffer))
            self.eof = True
            return
        self.last_activity = time.monotonic()
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        for line in lines:
            self.on_line(line)
            self.count_frame()

    def count_frame(self) -> None:
        """Obey the switches that count frames."""
        self.frames += 1
        leaving = self.switches.get("exit_after") or {}
        if leaving.get("n") == self.frames:
            self.leave_as_told(leaving, "exit_after")
        stuck = self.switches.get("not_reading")
        if stuck and self.frames >= stuck.get("after", 0):
            self.journal("not_reading")
            self.reading = False

    def end_of_input(self) -> None:
        """Leave at end of file unless the switches say otherwise."""
        if self.switches.get("ignore_eof"):
            self.may_leave = lambda: False
            return
        time.sleep(self.switches.get("busy_at_eof", 0) / 1000)
        self.leave(0, "eof")

    # -- signals and start -----------------------------------------------------------------------------------------

    def on_signal(self, number: int, _frame: object) -> None:
        """Journal a signal, then obey it or not."""
        self.journal("signal", signal=number)
        if number == signal.SIGTERM and self.switches.get("fork_on_term"):
            if os.fork():
                os._exit(143)
            self.journal("forked", ppid=os.getppid())
        elif not self.switches.get("ignore_term"):
            self.die(number)

    def spawn_child(self, kind: str) -> None:
        """Leave a child behind that waits for ever: in its own session, in our group, or on one of our pipes."""
        if os.fork():
            return
        if kind == "setsid":
            os.setsid()
            if os.fork():
                os._exit(0)
        disposition = signal.SIG_IGN if self.switches.get("child_ignores_term") else signal.SIG_DFL
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, disposition)
        null = os.open("/dev/null", os.O_RDWR)
        kept = {"holds_stdout": (1,), "reads_stdin": (0,)}.get(kind, ())
        for fd in {0, 1, 2} - set(kept):
            os.dup2(null, fd)
        self.journal("child", kind=kind, ppid=os.getppid(), pgid=os.getpgid(0), sid=os.getsid(0))
        while kind == "reads_stdin" and (stolen := os.read(0, 65536)):
            self.journal("stolen", size=len(stolen))
        while True:
            signal.pause()

    def start(self) -> None:
        """Journal the start and do what the switches want done before the first byte is read."""
        switches = self.switches
        ids = {"ppid": os.getppid(), "pgid": os.getpgid(0), "sid": os.getsid(0)}
        self.journal("started", **ids, fds=self.inherited, cwd=os.getcwd())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        if switches.get("print_env"):
            self.write("".join(f"{name}={value}\n" for name, value in os.environ.items()).encode(), 2)
        if "need_env" in switches and switches["need_env"] not in os.environ:
            self.leave_as_told({"code": 1, "stderr": f"{switches['need_env']} is not set"}, "need_env")
        if "exit_before_init" in switches:
            self.leave_as_told(switches["exit_before_init"], "exit_before_init")
        self.take_resources()
        if "stderr" in switches:
            self.write_stderr(switches["stderr"])
        kinds = switches.get("spawn_child", [])
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            self.spawn_child(kind)
        time.sleep(switches.get("sleep_start", 0) / 1000)
        leaving = switches.get("exit_after") or {}
        if "ms" in leaving:
            self.after(leaving["ms"] / 1000, lambda: self.leave_as_told(leaving, "exit_after"))

    def take_resources(self) -> None:
        """Take the lock, port, memory and threads that the switches name; leave when one cannot be had."""
        switches = self.switches
        if "exclusive_lock" in switches:
            fd = os.open(switches["exclusive_lock"], os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.leave_as_told({"code": 1, "stderr": "another copy holds the lock"}, "exclusive_lock")
        if "listen_port" in switches:
            import socket  # only here: it costs start-up time

            self.listener = socket.socket()
            try:
                self.listener.bind(("127.0.0.1", switches["listen_port"]))
            except OSError as error:
                self.leave_as_told({"code": 1, "stderr": f"cannot listen: {error}"}, "listen_port")
            self.listener.listen()
        if "threads" in switches:
            import threading

            for _ in range(switches["threads"]):
                threading.Thread(target=threading.Event().wait, daemon=True).start()
        self.memory = bytearray(b"m") * (int(switches.get("alloc", 0)) << 20)


def main() -> NoReturn:
    """Start, and serve until end of file, a signal or a fault."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.dirname(os.path.dirname(here)))
    from tests.kit.fserver_modern import DualServer

    process = Process(read_switches())
    process.start()
    DualServer(process)
    process.loop()


if __name__ == "__main__":
    main()
