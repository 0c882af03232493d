"""Every setting of the program: its name, its type, its default and its meaning, in one place.

Validation, the sample file, the JSON schema and the reference of the README are all made from these models. They are
frozen and compare by content, so a reload sees with ``!=`` what really changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    Tag,
    field_validator,
    model_validator,
)

from supervisord_mcp.config.container import (
    ContainerDefaults,
    ImageName,
    Package,
    Permits,
    Wanted,
    check_engine,
    container_problem,
    package_command,
)
from supervisord_mcp.config.daemon import Audit, DaemonConfig, Metrics, Table
from supervisord_mcp.config.fields import (
    NETWORKS,
    TABLE,
    WORD,
    Call,
    Command,
    CountBound,
    CpuBound,
    Credentials,
    Duration,
    Environment,
    Exposed,
    Frozen,
    Kind,
    Limit,
    PackageName,
    PathText,
    ProfileName,
    ProjectFile,
    ServerName,
    SizeBound,
    VariableName,
    Words,
    check_hosts,
    check_network,
    check_rules,
    form_of,
    freeze,
)
from supervisord_mcp.config.lifetime import Backoff, Budget, Log
from supervisord_mcp.config.protected import check_unprotected
from supervisord_mcp.config.values import FrozenTable
from supervisord_mcp.egress.registries import SETS
from supervisord_mcp.egress.rules import Rule, parse_rules
from supervisord_mcp.policy.sharing import Scope as SharedBy
from supervisord_mcp.policy.sharing import effective_scope, scope_problem, uses_project
from supervisord_mcp.policy.tokens import KINDS

Scope = Literal["auto", "global", "project", "session"]
Era = Literal["auto", "legacy", "modern"]
Start = Literal["on-demand", "eager"]
Callbacks = Literal["off", "on", "serialized", "cookie", "exclusive"]
Breach = Literal["restart", "stop", "warn"]
Restart = Literal["always", "on-failure", "never"]
RuntimeName = Literal["bwrap", "container", "landlock", "bare"]
Pull = Literal["missing", "always", "never"]
Access = Literal["ro", "rw"]
Family = Literal["inet", "inet6", "netlink-route"]
Deliver = Literal["env", "file"]


class Mount(Table):
    """A file or directory of the machine that a sandboxed server may see, at the same path."""

    path: PathText = Field(
        description="File or directory. Variables and ~ are expanded; a relative path is one of the project.",
        examples=["${project}"],
    )
    access: Access = Field(default="ro", description="`ro`: read only. `rw`: read and write.")
    optional: StrictBool = Field(default=False, description="Whether it is left out where there is no such file.")
    unprotected: Annotated[tuple[str, ...], AfterValidator(check_unprotected), Kind("list of names")] = Field(
        default=(),
        description="What may be written although other programs run what is in it: by default hooks and settings of"
        " git, settings of editors and of hosts of MCP, and CI configuration stay read-only in a mount with `rw`.",
        examples=[[".vscode"]],
    )


class Reach(Table):
    """What a sandboxed server reaches, and nothing beside: names are resolved and connections made by the daemon."""

    allow: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(check_rules), Kind("list of rules")] = Field(
        description="Hosts with a port: `api.example.com:443`; `*.example.com:443` is every name below a domain,"
        " `host-loopback:8080` a port of this machine, `internet` every name that is no private one, `@npm` and `@pypi`"
        " the registries that your own configuration of npm, pip and uv names.",
        examples=[["api.example.com:443"]],
    )
    private: StrictBool = Field(
        default=False, description="Whether the names may lead into private networks, and rules name private addresses."
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        parse_rules([text for text in self.allow if text not in SETS], private=self.private)
        return self

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, without those that sets stand for."""
        return parse_rules([text for text in self.allow if text not in SETS], private=self.private)

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets that are named."""
        return tuple(text for text in SETS if text in self.allow)


#: A word, or a table.
Network = Annotated[
    Annotated[Reach, Tag(TABLE)] | Annotated[str, AfterValidator(check_network), Tag(WORD)],
    Discriminator(form_of),
    Kind(", ".join(f'`"{word}"`' for word in NETWORKS) + " or a table"),
]


def network_text(network: Reach | str) -> str:
    """Return what is reached, as a person reads it."""
    if isinstance(network, str):
        return network
    return ", ".join(network.allow) + (" (private too)" if network.private else "")


class Limits(Table):
    """What a server may use at most; one that takes more is ended or refused, and its neighbours are not disturbed."""

    memory: SizeBound = Field(
        default=1 << 30, description="Memory of all processes of the server together; beyond it the server is ended."
    )
    pids: CountBound = Field(
        default=128, description="Processes and threads; a Node server needs at least 12. No more can be started."
    )
    cpu: CpuBound = Field(
        default=None,
        description="Processors, as a share of their time. A control group holds the server back; without one it is"
        " ended when it used more over a minute.",
    )
    nofile: CountBound = Field(default=1024, description="Open files of each process.")
    fsize: SizeBound = Field(default=2 << 30, description="The largest file that may be written.")
    tmp: SizeBound = Field(default=256 << 20, description="Size of the private /tmp of a sandbox.")
    shm: SizeBound = Field(default=64 << 20, description="Size of the private /dev/shm of a sandbox.")
    home: SizeBound = Field(default=256 << 20, description="Size of the private home directory of a sandbox.")


class SystemCalls(Table):
    """What a sandboxed server may ask of the kernel, beside the system calls that all programs need."""

    families: Annotated[tuple[Family, ...], Kind('list of `"inet"`, `"inet6"`, `"netlink-route"`')] = Field(
        default=("inet", "inet6", "netlink-route"),
        description="Kinds of sockets it may make, to reach what `network` says; without any it has no network at all.",
    )
    unix: StrictBool = Field(
        default=False,
        description="Unix sockets with a name, in its own files. A pair of connected ones is allowed to every server.",
    )
    userns: StrictBool = Field(
        default=False, description="Namespaces of its own, for a server that puts its parts into sandboxes."
    )
    ptrace: StrictBool = Field(default=False, description="What debuggers need, for processes of the same sandbox.")
    deny: Annotated[tuple[Call, ...], Kind("list of system calls")] = Field(
        default=(),
        description="System calls that are refused as well, or `prctl(PR_SET_MM)`.",
        examples=[["memfd_create"]],
    )
    audit: StrictBool = Field(
        default=False,
        description="Whether `smcp logs NAME` names each system call that is refused, and each file that is looked for"
        " and not shown; that takes some time.",
    )


class Install(Table):
    """What the installation of the package that npx or uvx runs may do beyond fetching it from its registries."""

    scripts: Annotated[tuple[PackageName, ...], Kind("list of names")] = Field(
        default=(),
        description="Packages whose own programs may run while they are installed: install scripts of npm, a build from"
        " source for Python.",
        examples=[["esbuild"]],
    )
    allow: Annotated[tuple[str, ...], AfterValidator(check_hosts), Kind("list of rules")] = Field(
        default=(), description="Hosts with a port that it reaches besides.", examples=[["files.example.com:443"]]
    )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of ``allow``; who names a host here may mean one of a private network."""
        return parse_rules(self.allow, private=True)


class ServerConfig(Table):
    """One MCP server: the command that runs it, who shares it, and what it may reach."""

    command: Command = Field(
        default=(),
        description="The program and its arguments. A program without a slash is searched in `daemon.path` and PATH. In"
        " a container it takes the place of what the image starts, and can be left out where `image` says enough;"
        " with `package` there is none.",
        examples=[["uvx", "mcp-server-time"]],
    )
    args: Words = Field(default=(), description="Arguments appended to the command.", examples=[["--verbose"]])
    image: Annotated[ImageName | None, Kind("name of an image")] = Field(
        default=None,
        description="The image of a container. It is resolved once, and what it was then is what runs until you accept"
        " another one (see `smcp image`). With `package`, the image in which that runs.",
        examples=["registry.example.com/team/server:2"],
    )
    package: Annotated[Package | None, Kind('`"npx:NAME@VERSION"` or `"uvx:NAME==VERSION"`')] = Field(
        default=None,
        description="A package of npm or Python with its version, in the place of `command`. In a container it is"
        " installed in a base image of the profile, into a volume of its own.",
        examples=["npx:@modelcontextprotocol/server-everything@2026.1.26"],
    )
    cwd: Annotated[PathText | None, Kind("path")] = Field(
        default=None,
        description="Working directory of the server. A relative path is one of the project.",
        examples=["${project}"],
    )
    env: Environment = Field(
        default=FrozenTable(),
        repr=False,
        description="Environment variables of the server, beside the small base that every server gets.",
        examples=[{"EXAMPLE_TOKEN": "${EXAMPLE_TOKEN:-}"}],
    )
    inherit: Annotated[tuple[VariableName, ...], Kind("list of names")] = Field(
        default=(),
        description="Variables taken from the host's environment, else from the daemon's; unset ones are left out.",
        examples=[["HTTPS_PROXY"]],
    )
    exposed: Exposed = Field(
        default=(),
        description="What may stand in the command although every user of the machine can read it there: kinds of"
        f" secrets ({', '.join(f'`{kind}`' for kind in KINDS)}), or a secret by its source and name.",
        examples=[["url-password"]],
    )
    warn_on_echo: StrictBool = Field(
        default=False,
        description="Whether it is reported, in `smcp logs` and `smcp events`, when the server sends a host a secret"
        " that smcp knows. Messages themselves are never altered.",
    )
    credentials: Credentials = Field(
        default=FrozenTable(),
        description="Secrets of the server, each as the variable that gets it and where it is: `vault:NAME` (see `smcp"
        " secret`), `keyring:NAME` or `keyring:SERVICE/USER`, `file:PATH`, `env:NAME` (of the daemon), `command:WORDS`"
        " (what a program prints), `systemd:NAME`. They are read at each start of the server.",
        examples=[{"GITHUB_TOKEN": "vault:github"}],
    )
    deliver: Deliver = Field(
        default="env",
        description="How the server gets its credentials. `env`: in variables. `file`: each in a file that only the"
        " server can read, on a tmpfs, gone when it ends; the variable holds its path.",
    )
    profile: ProfileName = Field(
        default="default",
        description="Named rules of isolation (see `smcp profile list`). What the entry itself says comes"
        " on top: `mounts`, `env` and `inherit` are added, `limits` and `seccomp` count key by key; `network`,"
        " `runtime` and `scope` replace those of the profile.",
    )
    confirm: Annotated[ProfileName | None, Kind("name")] = Field(
        default=None,
        description="The name of the profile again, where the profile asks for that because it gives so much.",
        examples=["docker-socket"],
    )
    scope: Scope = Field(
        default="auto",
        description="Who shares one instance: everybody (`global`), the sessions of one project (`project`), nobody"
        " (`session`). `auto` is `project` if the entry uses ${project} or a relative path, else `global`.",
    )
    project_file: Annotated[ProjectFile | None, Kind("path")] = Field(
        default=None,
        description="The file of a project, such as .mcp.json, that the entry was taken from. The server is one of its"
        " project, and is started only while that file is as it was when you trusted it (see `smcp trust`).",
        examples=["/home/anna/site/.mcp.json"],
    )
    callbacks: Callbacks = Field(
        default="off",
        description="Whether the server may ask back (sampling, elicitation, roots) where hosts share it. `off`: it is"
        " told that no host can. `serialized`: hosts with the same capabilities and roots share it, and calls during"
        " which it may ask are made for one host at a time. `cookie`: such calls run side by side, for a server that"
        " passes on the `traceparent` of the call; what may be for several hosts is refused, and from then on the calls"
        " wait for each other. `exclusive`: every session has its own."
        " `on` is `serialized`. With scope `session` it may always ask.",
    )
    era: Era = Field(
        default="auto",
        description="Era of the protocol in which the server is spoken to: `legacy` (with a handshake, up to"
        " 2025-11-25) or `modern` (2026-07-28). `auto` finds out what it speaks, and prefers the era of the host.",
    )
    start: Start = Field(
        default="on-demand",
        description="`on-demand`: started by the first request that needs it. `eager`: started with the daemon.",
    )
    idle_timeout: Limit = Field(
        default=600.0,
        description='A server started on demand is stopped when nobody used it for this long; "off" keeps it running.',
    )
    start_timeout: Duration = Field(
        default=60.0, gt=0, description="A server that is not ready after this long failed to start."
    )
    install_timeout: Duration = Field(
        default=600.0, gt=0, description="How long installing the package, or fetching the image, may take at first."
    )
    install: Install = Field(
        default=Install(), description="What the installation may do beyond fetching from registries."
    )
    stop_grace: Duration = Field(
        default=3.0, description="How long a server may take to end once its stdin is closed, and again after SIGTERM."
    )
    restart: Restart = Field(default="on-failure", description="When a server that ended by itself is started again.")
    budget: Budget = Field(default=Budget(), description="How many restarts a server may have before it gives up.")
    backoff: Backoff = Field(default=Backoff(), description="How long a server waits before it is restarted.")
    runtime: RuntimeName = Field(
        default="bwrap",
        description="`bwrap`: in a sandbox of bubblewrap. `landlock`: without namespaces, where the system allows none;"
        " reduced isolation, `smcp status NAME` says what is not covered."
        " `container`: in a container of Docker or Podman. `bare`: with all rights of your account, no isolation.",
    )
    pull: Pull = Field(
        default="missing",
        description="When the image of a container is fetched. `missing`: where the engine has none of that name."
        " `always`: at every start, to learn of a change. `never`: not at all; a missing or changed one is refused.",
    )
    engine: Annotated[str | None, AfterValidator(check_engine), Kind("string")] = Field(
        default=None,
        description="The container engine: `docker`, `podman`, the name of a context of Docker, or a URL (`unix://`,"
        " `tcp://`, `ssh://[USER@]HOST[:PORT]`). Without it the one is used that is found.",
        examples=["ssh://anna@build.example.com"],
    )
    container: ContainerDefaults = Field(
        default=ContainerDefaults(), description="What containers of packages are made of, and whom they run as."
    )
    permit: Permits = Field(
        default=(),
        description="What a container is given that none has by itself, each by its name: `privileged`, `host-network`"
        ' (with `network = "host"`), `engine-socket` (a mount of the socket of an engine), `cap:NAME` (a'
        " capability). For a command of `docker run` also `tty`, `detach`, `host-namespace`, `unconfined`, `device`.",
        examples=[["cap:NET_BIND_SERVICE"]],
    )
    network: Network = Field(
        default="none",
        description="`none`: no network at all. `loopback`: one with nothing else in it. A table: what it allows,"
        ' like { allow = ["api.example.com:443"], private = false }.'
        " `internet`: all that is public, but no private network and not this machine. `host`: the network of the"
        " machine, nothing is held back. For `bare`, `none` is not enforced.",
    )
    mounts: tuple[Mount, ...] = Field(
        default=(),
        description="Files and directories that the sandbox shows to the server.",
        examples=[
            [
                {"path": "${project}", "access": "rw", "unprotected": [".vscode"]},
                {"path": "~/.x", "optional": True},
            ]
        ],
    )
    limits: Limits = Field(
        default=Limits(),
        description="What the server may use at most.",
        examples=[{"memory": "512M", "pids": 64, "cpu": 1.0}],
    )
    breach: Breach = Field(
        default="restart",
        description="What follows when a limit is exceeded. `restart`: the server is ended and started again as after a"
        " crash. `stop`: it is ended and waits for `smcp start`. `warn`: `memory`, `pids` and `cpu` are only measured,"
        " and `smcp events` and the log tell of it.",
    )
    seccomp: SystemCalls = Field(
        default=SystemCalls(),
        description="What the server may ask of the kernel.",
        examples=[{"unix": True}],
    )
    log: Log = Field(default=Log(), description="Its log: what it writes to stderr, and what smcp says about it.")
    kept_messages: Annotated[StrictInt, Field(ge=0, le=10_000)] = Field(
        default=0, description="How many of its last messages are kept in memory, at most 16M, for `smcp tap NAME`."
    )

    @property
    def argv(self) -> tuple[str, ...]:
        """The command with its arguments, variables not expanded."""
        return (package_command(self.package) if self.package else self.command) + self.args

    @property
    def pinned_era(self) -> Literal["legacy", "modern"] | None:
        """The era that is not to be found out, or None."""
        return None if self.era == "auto" else self.era

    @property
    def sharing(self) -> SharedBy:
        """Who shares an instance. Raise `SmcpError` for a global server that uses the project."""
        return effective_scope("session" if self.callbacks == "exclusive" else self.scope, self.uses_project)

    @property
    def network_text(self) -> str:
        """What the server reaches, as a person reads it."""
        return network_text(self.network)

    @property
    def uses_project(self) -> bool:
        """Whether the entry, as it is written, depends on the project of a session."""
        paths = [mount.path for mount in self.mounts] + ([] if self.cwd is None else [self.cwd])
        return self.project_file is not None or uses_project(self.argv, self.env.values(), paths)

    @field_validator("command")
    @classmethod
    def _named(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if command and not command[0]:
            raise ValueError("the first word, the program, must not be empty")
        return command

    @field_validator("mounts")
    @classmethod
    def _distinct(cls, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
        paths = [mount.path for mount in mounts]
        if len(set(paths)) < len(paths):
            raise ValueError("the same path is mounted twice")
        return mounts

    @model_validator(mode="after")
    def _enforceable(self) -> Self:
        if self.runtime == "bare" and self.network not in ("none", "host"):
            raise ValueError(
                'runtime "bare" cannot limit the network; use "bwrap", or network = "host" if you trust it'
            )
        if self.runtime == "landlock" and self.network not in ("none", "host"):
            raise ValueError(
                'runtime "landlock" gives no network or all of it; use "bwrap", or network = "none" or "host"'
            )
        if self.runtime != "bare" and self.network != "none" and not {"inet", "inet6"} & set(self.seccomp.families):
            raise ValueError(
                'network reaches nothing without sockets; allow them: seccomp = { families = ["inet", "inet6"] }'
            )
        return self

    @model_validator(mode="after")
    def _contained(self) -> Self:
        keys = {"image": self.image, "engine": self.engine, "pull": self.pull != "missing"}
        wanted = Wanted(
            # Without a word of the entry, that of its profile counts, and is looked at then.
            runtime=self.runtime if "runtime" in self.model_fields_set else None,
            command=self.command,
            args=self.args,
            image=self.image,
            package=self.package,
            keys=tuple(key for key, value in keys.items() if value),
            permit=frozenset(self.permit),
            host_network=self.network == "host",
            paths=tuple(mount.path for mount in self.mounts),
        )
        if problem := container_problem(wanted):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        if twice := sorted(set(self.credentials) & (set(self.env) | set(self.inherit))):
            raise ValueError(f"credentials: {twice[0]} is in `env` or `inherit` as well; name it in one place only")
        return self

    @model_validator(mode="after")
    def _shareable(self) -> Self:
        if problem := scope_problem(self.scope, self.uses_project):
            raise ValueError(problem)
        if self.callbacks == "exclusive" and self.scope not in ("auto", "session"):
            raise ValueError(
                f'callbacks "exclusive" gives every session its own instance; scope "{self.scope}" does not'
            )
        return self


class Config(Table):
    """The whole configuration."""

    daemon: DaemonConfig = Field(default=DaemonConfig(), description="The daemon itself; only in config.toml.")
    audit: Audit = Field(default=Audit(), description="The record of the calls of tools; only in config.toml.")
    metrics: Metrics = Field(default=Metrics(), description="What is measured; only in config.toml.")
    servers: Annotated[Mapping[ServerName, ServerConfig], AfterValidator(freeze), Frozen] = Field(
        default=FrozenTable(), description="The servers by name; each name once in all files."
    )
