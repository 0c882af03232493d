"""What an entry grants, in the words of the runtimes. With a whole launch it is tested in test_launch.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp import rights
from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.models import Mount as ConfiguredMount
from supervisord_mcp.config.models import ServerConfig, SystemCalls
from supervisord_mcp.config.protected import ALWAYS, IF_THERE
from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import ConfigError
from supervisord_mcp.runtimes.base import Mount
from supervisord_mcp.runtimes.seccomp import Policy


def entry(**keys: Any) -> ServerConfig:
    return ServerConfig.model_validate({"command": ("x",), **keys})


@pytest.mark.parametrize("word", ["none", "loopback", "host"])
def test_a_network_without_rules_is_a_word(word: str) -> None:
    assert rights.network(entry(network=word)) == word


def test_the_internet_and_what_is_named_are_rules() -> None:
    assert rights.network(entry(network="internet")) == Egress(parse_rules(["internet"]))
    assert rights.network(entry(network={"allow": ["a.test:1"]})) == Egress(parse_rules(["a.test:1"]))


def test_unix_sockets_are_one_more_family() -> None:
    assert rights.policy_of(SystemCalls(unix=True)).families - rights.policy_of(SystemCalls(unix=False)).families == {
        "unix"
    }
    assert rights.policy_of(SystemCalls()) == Policy()


def test_an_unknown_system_call_is_an_error_at_its_place() -> None:
    with pytest.raises(ConfigError, match=r"servers.a.seccomp.deny: spoon"):
        rights.policy("a", SystemCalls(deny=("spoon",)), Origin(Path("/c.toml"), None))


def test_only_what_may_be_written_is_protected() -> None:
    written = ConfiguredMount(path="/p", access="rw", unprotected=(".vscode",))
    assert rights.mount("/p", "ro", written) == Mount("/p")
    mount = rights.mount("/p", "rw", written)
    assert ".vscode" not in mount.protected
    assert set(ALWAYS) - set(mount.protected) <= {".vscode"}
    assert mount.protected_if_there == IF_THERE


def test_what_is_only_warned_of_is_not_enforced() -> None:
    limits = rights.enforced(entry(limits={"memory": "1M", "nofile": 64}))
    assert (limits.memory, limits.nofile) == (1 << 20, 64)
    watched = rights.enforced(entry(limits={"memory": "1M", "nofile": 64}, breach="warn"))
    assert (watched.memory, watched.pids, watched.cpu, watched.nofile) == (None, None, None, 64)
