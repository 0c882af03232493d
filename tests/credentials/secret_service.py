"""What a real Secret Service is tried with, run by `test_keyring` in a D-Bus session of its own: prints JSON.

The arguments are a home for a vault. In the end the collection is locked, as it is until a person logs in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import keyring
import secretstorage

from supervisord_mcp.config.paths import Paths
from supervisord_mcp.credentials.keyring import KeyringSource
from supervisord_mcp.credentials.vault import Vault
from supervisord_mcp.errors import SecretError


def failure(action: object) -> str:
    """Return what an action fails with."""
    assert callable(action)
    try:
        action()
    except SecretError as error:
        return str(error)
    return ""


def main(home: Path) -> None:
    """Try everything."""
    source = KeyringSource(20.0)
    paths = Paths(home / "config", home / "state", home / "run", home / "cache")
    found: dict[str, object] = {"available": source.available, "missing": failure(lambda: source.read("github"))}
    source.put("github", "s3cret ü")
    found |= {"ours": source.read("github"), "has": [source.has("github"), source.has("jira")]}
    keyring.set_password("some service", "me@example.com", "of another program")
    found["theirs"] = source.read("some service/me@example.com")
    source.remove("github")
    found |= {"removed": failure(lambda: source.read("github")), "twice": failure(lambda: source.remove("github"))}
    Vault(paths, {}).put("token", "in the vault")
    protection = Vault(paths, {}).protection
    found |= {"vault": Vault(paths, {}).read("token"), "kind": protection and protection.kind}
    found["files"] = sorted(path.name for path in paths.state_dir.iterdir())
    secretstorage.get_default_collection(secretstorage.dbus_init()).lock()
    found["locked"] = failure(lambda: source.read("some service/me@example.com"))
    found["locked vault"] = failure(lambda: Vault(paths, {}).read("token"))
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
