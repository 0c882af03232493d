"""The types of single settings, each tried on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from supervisord_mcp.config import fields
from supervisord_mcp.config.values import FrozenTable


def read(kind: Any, value: object) -> Any:
    return TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [("npx -y 'a b'", ("npx", "-y", "a b")), (["npx", "a b"], ("npx", "a b")), ("x ${A:-b}", ("x", "${A:-b}"))],
)
def test_command(value: object, words: tuple[str, ...]) -> None:
    assert read(fields.Command, value) == words


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (fields.Command, "a 'b", "cannot be split into words: no closing quotation"),
        (fields.Command, "", "at least 1 item"),
        (fields.Command, ["x", 1], "valid string"),
        (fields.Command, "x ${A:-b c}", "never closed"),
        (fields.Text, "a\0b", "NUL"),
        (fields.Text, "$A", "lone"),
        (fields.PathText, "", "must not be empty"),
        (fields.PathText, "~bob/x", "only ~ and ~/"),
        (fields.SearchDirectory, "bin", "must be absolute"),
        (fields.SearchDirectory, "${project}/bin", "no project"),
        (fields.ServerName, "", "1 to 64"),
        (fields.ServerName, "-x", "1 to 64"),
        (fields.ServerName, "x" * 65, "1 to 64"),
        (fields.ServerName, "a/b", "1 to 64"),
        (fields.ServerName, "a\n", "1 to 64"),
        (fields.VariableName, "A-B", "not a name"),
        (fields.VariableName, "SMCP_INSTANCE", "set by smcp itself"),
        (fields.EnvironmentName, "", "must not be empty"),
        (fields.EnvironmentName, "A=B", "must not contain"),
        (fields.EnvironmentName, "SMCP_INSTANCE", "set by smcp itself"),
        (fields.Limit, 0, "greater than 0"),
        (fields.Duration, "x", "is not a duration"),
        (fields.Size, "x", "is not a size"),
        (fields.SizeBound, "x", "is not a size"),
        (fields.SizeBound, "1K", "greater than or equal to 4096"),
        (fields.CountBound, 4, "greater than or equal to 8"),
        (fields.CountBound, 64.0, "valid integer"),
        (fields.CountBound, True, "valid integer"),
        (fields.CpuBound, 0, r"greater than or equal to 0\.01"),
        (fields.CpuBound, "1", "valid number"),
    ],
)
def test_refused(kind: Any, value: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read(kind, value)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "9", "x" * 64])
def test_server_names(name: str) -> None:
    assert read(fields.ServerName, name) == name


@pytest.mark.parametrize("path", ["/usr/bin", "~/.local/bin", "${NVM_BIN}", "~"])
def test_search_directories(path: str) -> None:
    assert read(fields.SearchDirectory, path) == path


def test_environment_names_may_be_odd() -> None:
    environment: Mapping[str, str] = read(fields.Environment, {"npm_config_@x:registry": "y"})
    assert environment == {"npm_config_@x:registry": "y"}
    assert isinstance(environment, FrozenTable)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (fields.Limit, None, b'"off"'),
        (fields.Limit, 60, b'"1m"'),
        (fields.SizeBound, None, b'"off"'),
        (fields.SizeBound, 512 << 20, b'"512M"'),
        (fields.CountBound, None, b'"off"'),
        (fields.CountBound, 64, b"64"),
        (fields.CpuBound, None, b'"off"'),
        (fields.CpuBound, 1.0, b"1.0"),
        (fields.Duration, 0.5, b'"500ms"'),
        (fields.Size, 1 << 20, b'"1M"'),
        (fields.Environment, FrozenTable({"A": "b"}), b'{"A":"b"}'),
    ],
)
def test_written_as_a_person_writes_it(kind: Any, value: object, text: bytes) -> None:
    assert TypeAdapter(kind).dump_json(value) == text


def test_in_python_a_duration_stays_a_number() -> None:
    assert TypeAdapter(fields.Duration).dump_python(0.5) == 0.5
