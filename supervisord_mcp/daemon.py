"""The daemon: puts the parts together, answers signals, and ends with an exit code."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import hashlib
import logging
import os
import resource
import signal
import sys
import time
from contextlib import closing, suppress
from typing import Any, TextIO, cast

import anyio

from supervisord_mcp import __version__, systemd
from supervisord_mcp.audit import Audit
from supervisord_mcp.blueprint import Surroundings
from supervisord_mcp.catalogues import Catalogues
from supervisord_mcp.config.load import Loaded, load, watched_directories
from supervisord_mcp.config.paths import Paths, create_directories, find_paths
from supervisord_mcp.control import ControlServer, Office
from supervisord_mcp.credentials.exposing import learn_stored, stored_in
from supervisord_mcp.credentials.masking import MaskedText, masker
from supervisord_mcp.credentials.reading import Credentials
from supervisord_mcp.endpoint import Endpoint
from supervisord_mcp.errors import ConfigError, DaemonAliveError, LaunchError, Problem, SmcpError
from supervisord_mcp.eventloop import new_event_loop
from supervisord_mcp.exporter import Exporter
from supervisord_mcp.hostwatch import HostWatch
from supervisord_mcp.images.provider import Change
from supervisord_mcp.journald import Journald
from supervisord_mcp.launch import Launcher, Told, make_runtimes
from supervisord_mcp.listener import Greeting, Listener
from supervisord_mcp.logbooks import ServerLogs
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.protocol.control import DaemonStatus, ReloadResult
from supervisord_mcp.reception import Reception
from supervisord_mcp.reloader import Reloader
from supervisord_mcp.replays import ReplayDesk
from supervisord_mcp.rotation import Rotation
from supervisord_mcp.runtimes import cgroup, delivery, hierarchy, orphans, tree
from supervisord_mcp.runtimes.audit import Denial, Missed, Notice
from supervisord_mcp.runtimes.egress.meter import Contact
from supervisord_mcp.runtimes.landlock import places
from supervisord_mcp.runtimes.privacy import keep_memory_private
from supervisord_mcp.runtimes.process import secure_standard_fds
from supervisord_mcp.shim import pointer_file
from supervisord_mcp.stopped import Stopped
from supervisord_mcp.supervisor import Supervisor
from supervisord_mcp.taps import TapDesk
from supervisord_mcp.usage import UsageDesk
from supervisord_mcp.verdicts import Verdicts

_log = logging.getLogger(__name__)

#: Parameters of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

#: Set to anything, this variable leaves the daemon open to debuggers and to who looks at its descriptors.
_TRACEABLE = "SMCP_TRACEABLE"
#: How often the socket file is looked for, and idleness is judged, in seconds; a daemon that may end sooner looks more
#: often, but not more often than the second.
LOOK_EVERY, LOOK_SOONER = 5.0, 0.1
#: How long an orderly end may take before what is left is killed, in seconds above the grace of the servers.
LAST_PATIENCE = 30.0


class Daemon:
    """One running daemon."""

    def __init__(self, paths: Paths, loaded: Loaded, *, on_demand: bool) -> None:
        self._paths = paths
        self._config = loaded.config
        self._files, self._directories = loaded.files, loaded.directories
        self._problems: tuple[str, ...] = ()
        self._on_demand = on_demand
        self._started = time.monotonic()
        #: When somebody was last there, or something went on.
        self._needed_at = self._started
        self._ending = anyio.Event()
        self._socket_trouble = ""
        #: Whether another daemon has the place of this one.
        self._displaced = False
        self._observers = Observers()
        self._logs = ServerLogs(paths.log_dir, self._observers)
        self._logs.configure(loaded.config)
        self._observers.add(self._logs.note, "log")
        self._journald = Journald(self._observers)
        self._journald.configure(loaded.config.daemon.journal)
        self._loading = anyio.Lock()
        self._marker = marker_prefix(paths)
        self._origins = loaded.origins
        self._reached: set[tuple[str, str, int]] = set()

    async def run(self, endpoint: Endpoint) -> None:
        """Serve until told to end."""
        orphans.become_subreaper()
        await anyio.to_thread.run_sync(tree.kill_marked, self._marker)
        # What servers of a daemon that was killed had for themselves; they are gone now.
        await anyio.to_thread.run_sync(places.remove, str(self._paths.private_dir))
        await anyio.to_thread.run_sync(delivery.clean, str(self._paths.delivery_dir))
        groups = await anyio.to_thread.run_sync(_find_groups)
        told = Told(self._note_contact, self._note_notice)
        self._runtimes = make_runtimes(
            self._paths.private_dir, groups, self._config.daemon.uids, told, self._paths.placeholders_file
        )
        try:
            await self._serve(endpoint)
        finally:
            with anyio.CancelScope(shield=True):
                for runtime in self._runtimes.values():
                    await runtime.aclose()
                if groups is not None:
                    groups.close()

    async def _serve(self, endpoint: Endpoint) -> None:
        self._credentials = Credentials(self._paths, os.environ, self._config.daemon.path)
        self._launcher = self._make_launcher()
        async with anyio.create_task_group() as tasks:
            around = Surroundings(
                tasks,
                self._observers,
                Catalogues(self._paths.catalogue_dir),
                Verdicts(self._paths.verdicts_file),
                Stopped(self._paths.stopped_file),
                # Asked for nothing before the listener is there: `start_eager` is below.
                lambda: self._check_place(endpoint, listener),
            )
            self._supervisor = Supervisor(self._config, self._launcher, around, self._logs)
            self._reception = Reception(self._supervisor, self._paths.sessions_dir, self._observers)
            self._reloader = Reloader(self._reload_quietly)
            files = self._paths.counts_file, self._paths.history_file
            self._usage = UsageDesk(self._supervisor, self._observers, *files)
            self._exporter = Exporter(self._usage.snapshot)
            self._taps = TapDesk(self._supervisor, self._observers)
            self._audit = Audit(self._paths.audit_file, self._observers)
            self._audit.configure(self._config.audit)
            self._hosts = HostWatch(self._paths, self._observers, lambda: self._config.daemon.watch_hosts)
            office = Office(
                supervisor=self._supervisor,
                observers=self._observers,
                daemon_status=self._status,
                reload=self._reload,
                shut_down=lambda: self._end("smcp down"),
                stay=self._stay,
                log_of=self._logs.__getitem__,
                usage=self._usage.report,
                rotation=Rotation(self._supervisor, self._credentials, self._observers),
                taps=self._taps,
                replays=ReplayDesk(self._reception.receive, lambda: self._config.daemon.max_message),
            )
            control = ControlServer(office, tasks)
            stop_reaping = orphans.watch_strangers(asyncio.get_running_loop())
            listener = Listener(endpoint.socket, lambda greeting: self._received(control, greeting))
            tasks.start_soon(anyio.to_thread.run_sync, learn_stored, self._credentials.vault)
            # Meanwhile it serves: an engine may be slow, and what is left there is in nobody's way.
            for runtime in self._runtimes.values():
                tasks.start_soon(runtime.clean, self._marker)
            tasks.start_soon(self._listen_to_signals)
            tasks.start_soon(self._watch_configuration)
            tasks.start_soon(self._hosts.run)
            tasks.start_soon(self._look_around, endpoint, listener, control)
            tasks.start_soon(self._usage.run)
            self._tell_crash(endpoint.crashed)
            self._supervisor.start_eager(self._config.servers)
            self._exporter.configure(self._config.metrics)
            gc.collect()
            gc.freeze()
            data = {"pid": os.getpid(), "version": __version__}
            self._observers.publish(Event("daemon-started", data=data))
            systemd.notify("READY=1")
            _log.info("smcp %s listens on %s", __version__, self._paths.socket)
            await self._ending.wait()
            systemd.notify("STOPPING=1")
            listener.close()
            self._exporter.close()
            endpoint.close_socket()
            if not self._displaced:
                self._reception.close_all()
            with anyio.move_on_after(LAST_PATIENCE + 3 * self._longest_grace()):
                await self._supervisor.shut_down()
            self._usage.close()
            self._audit.close()
            stop_reaping()
            tasks.cancel_scope.cancel()

    def _longest_grace(self) -> float:
        return max((server.stop_grace for server in self._config.servers.values()), default=0.0)

    def _received(self, control: ControlServer, greeting: Greeting) -> None:
        self._needed_at = time.monotonic()
        if greeting.hello.role == "control":
            control.receive(greeting)
        else:
            self._reception.receive(greeting)

    async def _listen_to_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    self._reloader.wake()
                else:
                    self._end(signal.Signals(number).name)

    def _end(self, why: str) -> None:
        """End, and say why: nothing is left to ask afterwards."""
        if not self._ending.is_set():
            _log.info("the daemon ends: %s", why)
            self._observers.publish(Event("daemon-ending", data={"cause": why}))
        self._ending.set()

    def _tell_crash(self, pid: str | None) -> None:
        if pid is not None:
            _log.warning("the daemon before this one, pid %s, did not end in order: it crashed or was killed", pid)
            self._observers.publish(Event("daemon-crashed", data={"pid": pid}))

    # Configuration

    async def _watch_configuration(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._reloader.run)
            await self._watch()

    async def _watch(self) -> None:
        wanted = self._config.daemon.reload
        directories = await anyio.to_thread.run_sync(watched_directories, self._paths) if wanted else ()
        await self._reloader.watch(directories)

    async def _reload_quietly(self) -> None:
        try:
            with suppress(ConfigError):
                await self._reload()
            await self._watch()
        except OSError as error:  # a link or a directory that went away while it was looked at
            _log.warning("the configuration changed while it was read: %s", error)
            self._reloader.wake()

    async def _reload(self) -> ReloadResult:
        """Read the configuration and apply what changed. A faulty one changes nothing but `status`."""
        async with self._loading:  # what is read later is also applied later
            try:
                await anyio.to_thread.run_sync(learn_stored, self._credentials.vault)
                loaded = await anyio.to_thread.run_sync(load, self._paths, None, stored_in)
                main = self._paths.config_file
                if main in self._files and main not in loaded.files:
                    # Editors that move the old file away first leave a gap; nothing is stopped in it (case 37).
                    raise ConfigError((Problem(str(main), None, "", "the file is gone; everything runs on as it was"),))
            except ConfigError as error:
                self._report(error)
                raise
            return self._apply(loaded)

    def _report(self, error: ConfigError) -> None:
        problems = tuple(map(str, error.problems))
        self._supervisor.faults = problems
        if problems != self._problems:
            self._problems = problems
            self._observers.publish(Event("config-faulty", data={"problems": list(problems)}))
            _log.error("the configuration was not reloaded:\n%s", error)

    def _apply(self, loaded: Loaded) -> ReloadResult:
        old, config = self._config, loaded.config
        if loaded.directories != self._directories or config.daemon.reload != old.daemon.reload:
            self._reloader.wake()  # also when a person asked for this, other places are watched from now on
        self._problems = self._supervisor.faults = ()
        self._files, self._directories = loaded.files, loaded.directories
        self._config = config
        if config.daemon.watch_hosts != old.daemon.watch_hosts:
            self._hosts.wake()
        self._logs.configure(config)
        logging.getLogger().setLevel(config.daemon.log_level.upper())
        if config.daemon.path != old.daemon.path:
            self._launcher = self._make_launcher()
        self._launcher.origins = self._origins = loaded.origins
        self._usage.settle()  # what is over already is told to those who wanted it then
        plan, displaced = self._supervisor.reconfigure(config, self._launcher)
        self._usage.configure(config)
        self._audit.configure(config.audit)
        self._journald.configure(config.daemon.journal)
        self._taps.configure(config)
        self._exporter.configure(config.metrics)
        self._reception.rehouse(displaced)
        self._supervisor.start_eager((*plan.added, *plan.changed))
        result = ReloadResult(added=plan.added, changed=plan.changed, removed=plan.removed)
        if not plan.empty:
            data = {"added": list(plan.added), "changed": list(plan.changed), "removed": list(plan.removed)}
            self._observers.publish(Event("config-reloaded", data=data))
            changes = "; ".join(f"{what} {', '.join(names)}" for what, names in data.items() if names)
            _log.info("configuration reloaded: %s", changes)
        return result

    def _make_launcher(self) -> Launcher:
        launcher = Launcher(self._paths, os.environ, self._marker, self._config.daemon.path, self._runtimes)
        launcher.origins = self._origins
        launcher.credentials = self._credentials
        launcher.image_changed = self._note_image
        return launcher

    def _note_contact(self, contact: Contact) -> None:
        """Tell what a sandbox with rules did not reach: its program may well keep the reason to itself."""
        if contact.server not in self._config.servers:
            return
        if contact.outcome == "passed":
            self._note_reached(contact)
            return
        target = f"{contact.host}:{contact.port}" if contact.port else contact.host
        left_out = f" (and {contact.unreported} more before it)" if contact.unreported else ""
        self._logs[contact.server].write("smcp", f"egress {contact.outcome} {target}: {contact.reason}{left_out}")
        data = {"host": contact.host, "port": contact.port, "outcome": contact.outcome, "cause": contact.reason}
        self._observers.publish(Event("egress", contact.server, data))

    def _note_reached(self, contact: Contact) -> None:
        """Tell once which host an audited server reached."""
        place = (contact.server, contact.host, contact.port)
        if self._config.servers[contact.server].seccomp.audit and place not in self._reached:
            self._reached.add(place)
            data = {"host": contact.host, "port": contact.port, "outcome": "passed", "cause": ""}
            self._observers.publish(Event("egress", contact.server, data))

    def _note_image(self, change: Change) -> None:
        """Tell that the name of an image stands for another one than the one that runs."""
        data = {"image": change.reference, "held": change.held, "found": change.found}
        self._observers.publish(Event("image-changed", change.server, data))

    def _note_notice(self, notice: Notice) -> None:
        """Tell what an audited server asked of the kernel in vain."""
        if notice.server not in self._config.servers:
            return
        match notice:
            case Denial():
                times = f", {notice.count} times by now" if notice.count > 1 else ""
                text = f"system call {notice.call} refused: {notice.answer}{times}"
                data: dict[str, Any] = {"call": notice.call, "answer": notice.answer, "count": notice.count}
                event = Event("syscall-refused", notice.server, data)
            case Missed():
                use = "write" if notice.writes else "read"
                text = f"file not shown that it would {use}: {notice.path}"
                event = Event("file-missed", notice.server, {"path": notice.path, "use": use})
        self._logs[notice.server].write("smcp", text)
        self._observers.publish(event)

    # Watching itself

    async def _look_around(self, endpoint: Endpoint, listener: Listener, control: ControlServer) -> None:
        """Bind the socket again if somebody deleted it, and end when nobody has needed this daemon for long."""
        while True:
            idle_exit = self._config.daemon.idle_exit if self._on_demand else None
            await anyio.sleep(min(LOOK_EVERY, max(idle_exit or LOOK_EVERY, LOOK_SOONER)))
            self._look_at_socket(endpoint, listener)
            self._logs.settle()
            if self._reception.sessions or control.connections or self._supervisor.needed:
                self._needed_at = time.monotonic()
            elif idle_exit is not None and time.monotonic() - self._needed_at >= idle_exit:
                servers = ", and with it the servers that nobody uses" if self._supervisor.active else ""
                # In one step with the look: a shim that comes now is hung up on and tries again.
                listener.close()
                self._end(f"nobody has needed it for {idle_exit:g} s{servers}")
                return

    def _look_at_socket(self, endpoint: Endpoint, listener: Listener) -> None:
        try:
            if endpoint.rebind_if_lost():
                listener.listen_on(endpoint.socket)
            self._reception.keep_records()
        except DaemonAliveError as error:
            self._give_way(str(error), listener)
        except SmcpError as error:
            # Hosts that are connected do not need the socket.
            if str(error) != self._socket_trouble:
                _log.error("new hosts cannot find this daemon: %s", error)
            self._socket_trouble = str(error)
        else:
            self._socket_trouble = ""

    def _give_way(self, why: str, listener: Listener) -> None:
        """Leave everything to the daemon that owns the directory now: two would run two children of every server."""
        if self._displaced or self._ending.is_set():
            return
        self._displaced = True
        listener.close()
        self._reception.hand_over()
        self._end(f"its directory was deleted, and another one has the place: {why}")

    def _check_place(self, endpoint: Endpoint, listener: Listener) -> None:
        """Look whether this is still the daemon, before a child is started that another one may start as well."""
        self._look_at_socket(endpoint, listener)
        if self._displaced:
            raise LaunchError("another daemon has taken the place of this one", retryable=False)

    def _stay(self) -> None:
        """A person wants this daemon, whoever started it."""
        self._on_demand = False

    def _status(self) -> DaemonStatus:
        return DaemonStatus(
            pid=os.getpid(),
            version=__version__,
            uptime=round(time.monotonic() - self._started, 3),
            socket=str(self._paths.socket),
            config=str(self._paths.config_file),
            problems=(*self._problems, *self._usage.problems, *filter(None, [self._exporter.trouble])),
            logging=self._logs.trouble,
            audit=self._audit.trouble or "ok",
            sessions=self._reception.sessions,
            hosts=self._hosts.remarks,
        )


def marker_prefix(paths: Paths) -> str:
    """Return what the markers of all children of this user's daemon begin with, after a restart of it too."""
    return hashlib.sha256(os.fsencode(paths.runtime_dir)).hexdigest()[:12] + ":"


def main(*, on_demand: bool) -> int:
    """Run the daemon in the foreground and return its exit status. Raise `SmcpError` if it cannot run.

    ``on_demand`` is true where a shim started it: then it ends by itself when nobody has needed it for long.
    """
    secure_standard_fds()
    keep_memory_private(traceable=bool(os.environ.get(_TRACEABLE)))
    _log_to_stderr()
    paths = find_paths(os.environ, os.getuid())
    create_directories(paths, os.getuid())
    # Before the socket is there: a shim that waits for it is told at once what is wrong with the configuration.
    loaded = load(paths)
    with closing(Endpoint(paths.runtime_dir, pointer=pointer_file(os.environ, os.getuid()))) as endpoint:
        logging.getLogger().setLevel(loaded.config.daemon.log_level.upper())
        _allow_descriptors()
        _give_memory_back()
        daemon = Daemon(paths, loaded, on_demand=on_demand)
        anyio.run(daemon.run, endpoint, backend_options={"loop_factory": new_event_loop})
    return 0


def _find_groups() -> cgroup.Groups | None:
    """Return where limits can be kept by control groups, after asking for a place where nothing else runs."""
    bus = systemd.find_bus(os.environ) if hierarchy.detect() is None else None
    if bus is not None and (trouble := systemd.enter_scope(bus)):
        _log.warning("no control group from the service manager, limits are kept without: %s", trouble)
    return cgroup.prepare()


def _log_to_stderr() -> None:
    """Log with the times of the servers' logs and of events: in UTC, so that they can be laid side by side."""
    form = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
    formatter = logging.Formatter(form, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    # What a crash prints goes there as well, and is masked in the same way.
    sys.stderr = cast("TextIO", MaskedText(sys.stderr, masker))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def _allow_descriptors() -> None:
    """A session takes four descriptors and a server six; the usual 1024 would be the end of a busy daemon."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 16
    if soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 1 << 16), hard))


def _give_memory_back() -> None:
    """Keep the C library from holding on to the memory of large messages: its own threshold grows with the largest."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(parameter, 1 << 20)
