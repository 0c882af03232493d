"""``smcp config``: check and show the configuration, and everything that is made from its models."""

from __future__ import annotations

import json
import os
import sys

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.output import console, count, print_line, printable
from supervisord_mcp.cli.parameters import AsJson, MaybeServerName, project_root
from supervisord_mcp.cli.registered import unknown


def check() -> None:
    """Check the configuration.

    Shows every fault of every file at once, as file:line: key: message. Commands and paths that are not there and
    variables that are not set here are shown too, but are no faults: they may be where a host runs.
    """
    from supervisord_mcp.cli.advice import advice
    from supervisord_mcp.config.load import load
    from supervisord_mcp.credentials.exposing import learn_stored, stored_in
    from supervisord_mcp.credentials.vault import Vault

    learn_stored(Vault(paths(), os.environ))
    loaded = load(paths(), known=stored_in)
    # Outside of any project no path is inside of one.
    for problem in advice(loaded, os.environ, project_root(None) or "/nowhere"):
        console(stderr=True).print(printable(f"warning: {problem}"), soft_wrap=True)
    console().print(f"{count(len(loaded.config.servers), 'server')}, no faults: {paths().config_dir}", soft_wrap=True)


def show(name: MaybeServerName = None, as_json: AsJson = False) -> None:
    """Show the configuration as it applies.

    All files together, with all defaults; values of env are masked.
    """
    import tomllib

    from supervisord_mcp.config import reference as described
    from supervisord_mcp.config.load import load
    from supervisord_mcp.config.values import FrozenTable

    config = load(paths()).config
    if name is None:
        text = described.show(config)
    elif name in config.servers:
        text = described.show(config.model_copy(update={"servers": FrozenTable({name: config.servers[name]})}))
        text = text[text.index("[servers.") :]
    else:
        raise unknown(name, config.servers)
    print_line(json.dumps(tomllib.loads(text), indent=2, ensure_ascii=False) if as_json else text.rstrip())


def schema() -> None:
    """Print the JSON schema of a configuration file.

    Editors that check and complete TOML can use it.
    """
    from supervisord_mcp.config import reference as described

    print_line(json.dumps(described.schema(), indent=2, ensure_ascii=False))


def sample() -> None:
    """Print a sample of a configuration file.

    It names every setting with its default and its meaning.
    """
    from supervisord_mcp.config import reference as described

    sys.stdout.write(described.sample())


def reference() -> None:
    """Print a reference of all settings.

    It is Markdown and has the values, the default and the meaning of each.
    """
    from supervisord_mcp.config import reference as described

    sys.stdout.write(described.reference())


def path() -> None:
    """Print where the configuration file is.

    More files may be in conf.d beside it.
    """
    print_line(str(paths().config_file))
