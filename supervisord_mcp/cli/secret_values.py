"""``smcp secret set``, ``rotate``, ``rm``, ``key``, ``unlock``: values come from a prompt or stdin, never from argv."""

from __future__ import annotations

import getpass
import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from supervisord_mcp.cli.client import SLOW, connected, paths, reload_daemon
from supervisord_mcp.cli.output import busy, console
from supervisord_mcp.cli.parameters import AsJson
from supervisord_mcp.cli.registered import unknown
from supervisord_mcp.errors import NoDaemonError, SecretError, SmcpError, UsageError

if TYPE_CHECKING:
    from supervisord_mcp.config.references import SecretReference
    from supervisord_mcp.credentials.vault import Vault
    from supervisord_mcp.protocol.control import Operation

V = TypeVar("V", bound="Vault")

#: The longest value that is read, in bytes; what sources can hold is less.
_LONGEST = 1 << 20

Secret = Annotated[
    str, typer.Argument(help="Name of a secret in the vault, or keyring:NAME.", metavar="[keyring:]NAME")
]
AnySecret = Annotated[str, typer.Argument(help="Name in the vault, or SOURCE:NAME.", metavar="[SOURCE:]NAME")]
KeyChoice = Annotated[
    Literal["keyring", "passphrase", "file"] | None,
    typer.Argument(help="Where the key of the vault shall come from.", metavar="keyring|passphrase|file"),
]


def store(
    name: Secret,
    grant: Annotated[
        list[str] | None,
        typer.Option("--grant", metavar="SERVER:VARIABLE", help="Grant it to a server as well, as this variable."),
    ] = None,
) -> None:
    """Store a secret.

    Asks for the value without showing it, or reads it from stdin where that is no terminal. The vault is one encrypted
    file; the first secret makes it, with a key in the keyring of the system where there is one, else in a file that
    only you can read, and says what that protects against.
    """
    from supervisord_mcp.config import edit
    from supervisord_mcp.config.load import load

    grants = [_server_variable(text) for text in grant or ()]
    reference = _writable(name)
    if grants:
        servers = load(paths()).config.servers
        for server, _ in grants:
            if server not in servers:
                raise unknown(server, servers)
    value = _asked(f"value of {reference}: ")
    _put(reference, value, replace=False)
    _say_weakness(value)
    refused: list[str] = []
    for server, variable in grants:
        try:
            edit.grant_secrets(paths(), server, {variable: str(reference)})
        except SmcpError as error:
            refused.append(f"'{server}': {error.message}")
    if len(refused) < len(grants):
        reload_daemon()
    _tell_changed(reference, only_failed=True)
    if refused:
        raise SecretError(
            f"{reference} is stored, but not granted to {'; '.join(refused)}",
            remedy=f"once that is mended: smcp secret grant SERVER VARIABLE={reference}",
        )


def rotate(name: AnySecret) -> None:
    """Give servers a new value of a secret.

    Of the vault or the keyring, asks for the new value as smcp secret set does, stores it, and restarts the servers
    that use it, and no other; hosts stay connected. Of another source, which has the new value already, only restarts.
    """
    reference = _reference(name)
    if reference.source in ("vault", "keyring"):
        _require(reference)
        value = _asked(f"new value of {reference}: ")
        _put(reference, value, replace=True)
        _say_weakness(value)
    _tell_changed(reference, only_failed=False)


def rm(
    name: Secret,
    force: Annotated[bool, typer.Option("--force", help="Also if servers are granted it; they start no more.")] = False,
) -> None:
    """Remove a secret.

    Servers that run keep what they were given until they are restarted.
    """
    from supervisord_mcp.config.load import load
    from supervisord_mcp.credentials.keyring import KeyringSource

    reference = _writable(name)
    servers = load(paths()).config.servers
    users = sorted(name for name, server in servers.items() if str(reference) in server.credentials.values())
    if users and not force:
        raise UsageError(
            f"{reference} is granted to {', '.join(users)}",
            remedy=f"take it away with: smcp secret grant {users[0]} VARIABLE= (or give --force)",
        )
    if reference.source == "keyring":
        KeyringSource().remove(reference.name)
    else:
        _vault().remove(reference.name)


def key(kind: KeyChoice = None, as_json: AsJson = False) -> None:
    """Show what protects the vault, or change it.

    With a kind the vault is encrypted anew with a new key: in the keyring of the system, made of a passphrase that you
    are asked for, or in a file that only you can read. Afterwards, copies of the file with the old key stay readable
    with that key.
    """
    from supervisord_mcp.credentials.vault import NewKey

    if kind is None:
        _show_key(as_json=as_json)
        return
    new = NewKey(kind, _new_passphrase() if kind == "passphrase" else None)
    vault = _vault()
    vault.protect(new)
    _say_protection(vault)
    if new.passphrase is not None:
        _ask_daemon_to_unlock(new.passphrase)


def unlock() -> None:
    """Open the vault for the daemon, where a passphrase protects it.

    The daemon keeps the key in its memory until it ends, and starts again what gave up without it.
    """
    from supervisord_mcp.protocol.secret_requests import SecretUnlock

    with connected(start=True) as client, busy("unlocking"):
        client.ask(SecretUnlock(passphrase=_asked("passphrase of the vault: ")), SLOW)


def opened(vault: V) -> V:
    """Return a vault that can be read: asks for its passphrase where it has one and there is a terminal to ask on."""
    place = vault.place
    if place is None or place.kind != "passphrase" or not _has_terminal():
        return vault
    try:
        vault.stored()
    except SecretError:
        vault.unlock(getpass.getpass("passphrase of the vault: "))
    return vault


def _vault() -> Vault:
    from supervisord_mcp.credentials.vault import Vault

    return opened(Vault(paths(), os.environ))


def _has_terminal() -> bool:
    """Whether there is a terminal to ask on, wherever stdin comes from."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _put(reference: SecretReference, value: str, *, replace: bool) -> None:
    from supervisord_mcp.credentials.base import checked
    from supervisord_mcp.credentials.keyring import KeyringSource

    if reference.source == "keyring":
        source = KeyringSource()
        if not replace and source.has(reference.name) and source.read(reference.name) != value:
            raise SecretError(
                f"the keyring has a secret {reference.name!r} already, with another value",
                remedy=f"To give servers a new value: smcp secret rotate {reference}",
            )
        source.put(reference.name, checked(value))
        return
    vault = _vault()
    is_new = vault.place is None
    vault.put(reference.name, value, replace=replace)
    if is_new:
        _say_protection(vault)


def _require(reference: SecretReference) -> None:
    """Raise `SecretError` for a secret that is not there, before anybody is asked for its value."""
    from supervisord_mcp.credentials.keyring import KeyringSource

    if reference.source == "keyring":
        KeyringSource().read(reference.name)
    else:
        _vault().read(reference.name)


def _say_protection(vault: Vault) -> None:
    if (protection := vault.protection) is not None:
        console(stderr=True).print(f"The vault is encrypted. {protection.text}", soft_wrap=True)


def _say_weakness(value: str) -> None:
    from supervisord_mcp.credentials.forms import weakness

    if text := weakness(value):
        console(stderr=True).print(
            f"warning: {text} A longer one with more kinds of characters is safer.", soft_wrap=True
        )


def _show_key(*, as_json: bool) -> None:
    import json

    from supervisord_mcp.cli.output import print_line
    from supervisord_mcp.credentials.vault import Vault

    protection = Vault(paths(), os.environ).protection
    if as_json:
        shown = None if protection is None else {"kind": protection.kind, "meaning": protection.text}
        print_line(json.dumps({"file": str(paths().vault_file), "key": shown}, indent=2, ensure_ascii=False))
    elif protection is None:
        console().print("there is no vault yet; smcp secret set NAME makes one", soft_wrap=True)
    else:
        console().print(f"{paths().vault_file}: {protection.kind}. {protection.text}", soft_wrap=True)


def _tell_changed(reference: SecretReference, *, only_failed: bool) -> None:
    """Let a daemon that runs restart what uses a secret; without one, whatever starts reads the new value."""
    from supervisord_mcp.protocol.secret_requests import SecretChanged

    operation = SecretChanged(secrets=(str(reference),), only_failed=only_failed)
    _ask_if_there(operation, f"restarting what uses {reference}")


def _ask_daemon_to_unlock(passphrase: str) -> None:
    from supervisord_mcp.protocol.secret_requests import SecretUnlock

    _ask_if_there(SecretUnlock(passphrase=passphrase), "unlocking")


def _ask_if_there(operation: Operation, what: str) -> None:
    try:
        with connected() as client, busy(what):
            client.ask(operation, SLOW)
    except NoDaemonError:
        return


def _asked(prompt: str) -> str:
    """Return a value from a terminal without echo, or all of stdin without the newline at its end."""
    if sys.stdin.isatty():
        return getpass.getpass(prompt)
    content = sys.stdin.buffer.read(_LONGEST + 1)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SecretError("the value is not UTF-8", remedy="Store it as text, in base64 for example.") from None
    return text.removesuffix("\n").removesuffix("\r")


def _new_passphrase() -> str:
    passphrase = _asked("new passphrase of the vault: ")
    if sys.stdin.isatty() and getpass.getpass("the same again: ") != passphrase:
        raise UsageError("the two are not the same; nothing was changed")
    return passphrase


def _reference(name: str) -> SecretReference:
    from supervisord_mcp.config.references import SOURCES, parse_reference

    text = name if name.partition(":")[0] in SOURCES and ":" in name else f"vault:{name}"
    try:
        return parse_reference(text)
    except ValueError as error:
        # The name is not quoted: who gets this wrong may have put the secret there.
        raise UsageError(str(error), remedy="the value is asked for, or read from stdin") from None


def _writable(name: str) -> SecretReference:
    reference = _reference(name)
    if reference.source not in ("vault", "keyring"):
        raise UsageError(
            f"{reference.source}: is only read; its secrets are kept by whoever owns it",
            remedy="the vault and the keyring are written: smcp secret set NAME, smcp secret set keyring:NAME",
        )
    return reference


def _server_variable(text: str) -> tuple[str, str]:
    server, colon, variable = text.partition(":")
    if not (colon and server and variable):
        raise UsageError("--grant takes SERVER:VARIABLE, like github:GITHUB_TOKEN")
    return server, variable
