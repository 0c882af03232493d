"""The table of all commands with their examples, and how a usage error looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from supervisord_mcp import __version__
from supervisord_mcp.cli import (
    adopt,
    audit,
    call,
    config,
    direct,
    doctor,
    entries,
    events,
    explain,
    hosts,
    image,
    listing,
    logs,
    probe,
    profile,
    profile_suggest,
    profile_test,
    release,
    replay,
    secret,
    secret_values,
    status,
    tap,
    tools,
    top,
    trust,
    up,
    usage,
    verbs,
    version,
)
from supervisord_mcp.cli.ending import INTERRUPTED, discard_output, ended
from supervisord_mcp.cli.output import print_line
from supervisord_mcp.errors import UsageError

_DAEMON: Final = "The daemon"
_SERVERS: Final = "Servers"
_SETUP: Final = "Configuration"
_HOSTS: Final = "In the configuration of a host"


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its name, its function, the panel of the help that lists it, and examples of its use."""

    name: str
    function: Callable[..., None]
    panel: str
    examples: tuple[str, ...]


COMMANDS: Final = (
    Command("run", direct.run, _DAEMON, ("smcp run",)),
    Command("up", up.up, _DAEMON, ("smcp up",)),
    Command("down", up.down, _DAEMON, ("smcp down",)),
    Command("reload", verbs.reload, _DAEMON, ("smcp reload",)),
    Command("events", events.events, _DAEMON, ("smcp events", "smcp events -f", "smcp events -f --json | jq .kind")),
    Command("doctor", doctor.doctor, _DAEMON, ("smcp doctor", "smcp doctor --json | jq '.findings[].verdict'")),
    Command("version", version.version, _DAEMON, ("smcp version", "smcp version --json")),
    Command(
        "status",
        status.status,
        _SERVERS,
        ("smcp status", "smcp status git time", "smcp status --usage", "smcp status --json | jq '.servers[].state'"),
    ),
    Command("top", top.top, _SERVERS, ("smcp top", "smcp top --sort memory", "smcp top --once")),
    Command(
        "usage",
        usage.usage,
        _SERVERS,
        (
            "smcp usage",
            "smcp usage git --since 6h",
            "smcp usage --json | jq '.servers[] | {name, memory: .figures.memory}'",
            "smcp usage --since 12h --plot usage.svg",
        ),
    ),
    Command(
        "explain",
        explain.explain,
        _SERVERS,
        ("smcp explain git", "smcp explain files --project ~/src/site", "smcp explain git --filter"),
    ),
    Command("list", listing.list_servers, _SERVERS, ("smcp list", "smcp list --json")),
    Command("start", verbs.start, _SERVERS, ("smcp start git", "smcp start --all")),
    Command("stop", verbs.stop, _SERVERS, ("smcp stop git time", "smcp stop --all")),
    Command("restart", verbs.restart, _SERVERS, ("smcp restart git", "smcp restart --all")),
    Command(
        "logs",
        logs.logs,
        _SERVERS,
        (
            "smcp logs git",
            "smcp logs git -n 20 -f",
            "smcp logs git --since 2h --grep 'error|denied'",
            "smcp logs git --session 7 --json | jq .text",
        ),
    ),
    Command(
        "audit",
        audit.audit,
        _SERVERS,
        ("smcp audit", "smcp audit --since 1d --server git", "smcp audit --tool git_push --json | jq .host"),
    ),
    Command(
        "tap",
        tap.tap,
        _SERVERS,
        (
            "smcp tap git -f",
            "smcp tap git -f --method 'tools/*' --host cursor",
            "smcp tap git -f --raw | jq .",
            "smcp tap git -f --save fault.jsonl",
        ),
    ),
    Command(
        "replay",
        replay.replay,
        _SERVERS,
        ("smcp replay fault.jsonl git", "smcp replay fault.jsonl git --json | jq 'select(.verdict != \"same\")'"),
    ),
    Command("tools", tools.tools, _SERVERS, ("smcp tools git", "smcp tools files --project ~/src/site --json")),
    Command("probe", probe.probe, _SERVERS, ("smcp probe git", "smcp probe git --json | jq .suggestions")),
    Command(
        "call",
        call.call,
        _SERVERS,
        (
            """smcp call time get_current_time '{"timezone": "Europe/Berlin"}'""",
            "echo '{}' | smcp call git git_status - --json",
        ),
    ),
    Command(
        "add",
        entries.add,
        _SETUP,
        (
            "smcp add time -- uvx mcp-server-time",
            "smcp add fetch --network internet -- uvx mcp-server-fetch",
            "smcp add db --image registry.example.com/team/db-mcp:2",
            "smcp add files --mount '${project}:rw' -- npx -y @modelcontextprotocol/server-filesystem '${project}'",
        ),
    ),
    Command("remove", entries.remove, _SETUP, ("smcp remove time",)),
    Command("hosts", hosts.hosts, _HOSTS, ("smcp hosts", "smcp hosts cursor", "smcp hosts --json | jq .duplicates")),
    Command("import", adopt.import_servers, _HOSTS, ("smcp import --dry-run", "smcp import cursor vscode")),
    Command("adopt", adopt.adopt, _HOSTS, ("smcp adopt --dry-run", "smcp adopt", "smcp adopt cursor --network none")),
    Command("release", release.release, _HOSTS, ("smcp release", "smcp release cursor", "smcp release --remove")),
    Command("trust", trust.trust, _HOSTS, ("smcp trust", "smcp trust .mcp.json", "smcp trust --list")),
    Command(
        "connect",
        direct.connect,
        _HOSTS,
        ("smcp connect git", "smcp connect files --project ~/src/site"),
    ),
    Command(
        "wrap",
        direct.wrap,
        _HOSTS,
        (
            "smcp wrap -- npx -y @modelcontextprotocol/server-everything",
            "smcp wrap --network internet -- uvx mcp-server-fetch",
        ),
    ),
)


CONFIG_COMMANDS: Final = (
    Command("check", config.check, "", ("smcp config check", "smcp config check && smcp reload")),
    Command("show", config.show, "", ("smcp config show", "smcp config show git --json")),
    Command("schema", config.schema, "", ("smcp config schema > smcp.schema.json",)),
    Command("sample", config.sample, "", ("smcp config sample > ~/.config/smcp/config.toml",)),
    Command("reference", config.reference, "", ("smcp config reference | less",)),
    Command("path", config.path, "", ("smcp config path", '"$EDITOR" "$(smcp config path)"')),
)

PROFILE_COMMANDS: Final = (
    Command("list", profile.list_profiles, "", ("smcp profile list", "smcp profile list --json | jq '.[].name'")),
    Command("show", profile.show, "", ("smcp profile show git", "smcp profile show git --resolved")),
    Command("diff", profile.diff, "", ("smcp profile diff default strict",)),
    Command("lint", profile.lint, "", ("smcp profile lint", "smcp profile lint mine ./draft.toml")),
    Command(
        "new", profile.new, "", ("smcp profile new mine --extends node-net", '"$EDITOR" "$(smcp profile new mine)"')
    ),
    Command("test", profile_test.try_profile, "", ("smcp profile test default", "smcp profile test strict --all")),
    Command("suggest", profile_suggest.suggest, "", ("smcp profile suggest git > draft.toml",)),
)
SECRET_COMMANDS: Final = (
    Command(
        "set",
        secret_values.store,
        "",
        (
            "smcp secret set github",
            "smcp secret set github --grant github:GITHUB_TOKEN < token.txt",
            "pass show work/jira | smcp secret set jira",
        ),
    ),
    Command("list", secret.list_secrets, "", ("smcp secret list", "smcp secret list --json | jq '.secrets[].secret'")),
    Command("rm", secret_values.rm, "", ("smcp secret rm github", "smcp secret rm --force github")),
    Command(
        "rotate",
        secret_values.rotate,
        "",
        ("smcp secret rotate github", "smcp secret rotate github < new.txt", "smcp secret rotate file:~/.jira"),
    ),
    Command(
        "grant",
        secret.grant,
        "",
        (
            "smcp secret grant github GITHUB_TOKEN=github",
            "smcp secret grant jira JIRA_TOKEN='command:pass show work/jira'",
            "smcp secret grant github GITHUB_TOKEN=",
        ),
    ),
    Command("check", secret.check, "", ("smcp secret check", "smcp secret check github --json")),
    Command("key", secret_values.key, "", ("smcp secret key", "smcp secret key passphrase")),
    Command("unlock", secret_values.unlock, "", ("smcp secret unlock", "smcp secret unlock < passphrase.txt")),
)
IMAGE_COMMANDS: Final = (
    Command("list", image.list_images, "", ("smcp image list", "smcp image list --json | jq '.[].found'")),
    Command("accept", image.accept, "", ("smcp image accept github && smcp restart github",)),
    Command("forget", image.forget, "", ("smcp image forget github",)),
)
GROUPS: Final = {
    "config": CONFIG_COMMANDS,
    "profile": PROFILE_COMMANDS,
    "secret": SECRET_COMMANDS,
    "image": IMAGE_COMMANDS,
}


class _Given:
    """What was given before the command."""

    debug = False


def run(argv: Sequence[str]) -> int:
    """Given the words after ``smcp``, run the command and return its exit status."""
    given = _Given()
    return ended(lambda: _invoke(argv, given), debug=lambda: given.debug)


def build() -> typer.Typer:
    """Return the program with all its commands."""
    app = _group()
    app.callback(epilog=_epilog(("smcp add time -- uvx mcp-server-time", "smcp status", "smcp COMMAND --help")))(_root)
    for command in COMMANDS:
        _register(app, command)
    for name, callback, examples in (
        ("config", _config, ("smcp config check", "smcp config show git")),
        ("profile", _profile, ("smcp profile list", "smcp profile show git --resolved")),
        ("secret", _secret, ("smcp secret set github --grant github:GITHUB_TOKEN", "smcp secret check")),
        ("image", _image, ("smcp image list", "smcp image accept github")),
    ):
        group = _group()
        group.callback(epilog=_epilog(examples))(callback)
        for command in GROUPS[name]:
            _register(group, command)
        app.add_typer(group, name=name, rich_help_panel=_SETUP)
    return app


def _invoke(argv: Sequence[str], given: _Given) -> int:
    program = typer.main.get_command(build())
    # Whoever says only half of a command gets the help of that half.
    words = [*argv, "--help"] if list(argv) in ([], *([name] for name in GROUPS)) else list(argv)
    try:
        result = program.main(args=words, prog_name="smcp", standalone_mode=False, obj=given)
    except SystemExit as ending:
        # The shell completion ends like this, and a reader of our output that left.
        _flush_or_discard()
        return ending.code if isinstance(ending.code, int) else 1
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        # The base class of usage errors has another home in every generation of typer; its two traits are stable.
        if not (hasattr(error, "format_message") and getattr(error, "exit_code", None) == 2):
            raise
        context = getattr(error, "ctx", None)
        help_of = context.command_path if context is not None else "smcp"
        message = error.format_message().replace(": Value error, ", ": ")  # the words of pydantic for what it was told
        raise UsageError(message, remedy=f"see: {help_of} --help") from error
    return result if isinstance(result, int) else 0


def _flush_or_discard() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def _group() -> typer.Typer:
    return typer.Typer(
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def _register(app: typer.Typer, command: Command) -> None:
    app.command(
        command.name,
        help=_help(command.function.__doc__ or ""),
        epilog=_epilog(command.examples),
        rich_help_panel=command.panel or None,
    )(command.function)


def _help(text: str) -> str:
    """Return a docstring for a screen of any width, where a bracket is no markup: typer keeps the ends of its lines."""
    from rich.markup import escape

    return escape("\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n")))


def _epilog(examples: Sequence[str]) -> str:
    from rich.markup import escape

    return "[bold]Examples[/bold]\n\n" + "\n\n".join(f"$ {escape(example)}" for example in examples)


def _say_version(wanted: bool) -> None:
    if wanted:
        print_line(f"smcp {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the program an error was raised.")] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version of this program.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """One daemon owns your MCP servers: one sandboxed process per server for all your hosts."""
    context.obj.debug = debug


def _config() -> None:
    """Check, show and describe the configuration."""


def _profile() -> None:
    """Show, compare, check and make profiles of isolation."""


def _image() -> None:
    """Show what the images of containers were when they were first used, and accept what they are by now."""


def _secret() -> None:
    """Store secrets, and grant each to the servers that need it."""
