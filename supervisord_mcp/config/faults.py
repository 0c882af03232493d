"""What is wrong with a configuration, in words that say what to write instead.

The words of pydantic are for programmers. No message repeats a value that could be a secret: only numbers, durations,
sizes and the words of a fixed list are quoted.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from supervisord_mcp.config.fields import TABLE, WORD
from supervisord_mcp.config.models import Config, ServerConfig
from supervisord_mcp.config.source import KeyPath

#: Lower, and unrelated words are offered as the nearest key.
_SIMILAR = 0.6
_NAMES = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "a table",
}
_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "model_type": "a table",
    "mapping_type": "a table",
    "dict_type": "a table",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def faults(error: ValidationError, root: type[BaseModel] = Config) -> list[tuple[KeyPath, str]]:
    """Return the key and the message of every fault that validating a model found; ``root`` is the model."""
    found = error.errors(include_url=False)
    # A misspelt key is one fault, not an unknown and a missing one.
    unknown = [_path(details) for details in found if details["type"] == "extra_forbidden"]
    meant = {(*path[:-1], _nearest(root, path)) for path in unknown}
    return [
        _fault(root, details) for details in found if not (details["type"] == "missing" and _path(details) in meant)
    ]


def inner(annotation: Any) -> Any:
    """Given the annotation of a field, return the type inside of Annotated, Optional and collections."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return inner(next(argument for argument in arguments if argument is not type(None)))
    if origin is tuple:
        return inner(arguments[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return inner(arguments[1])
    if origin is not None and hasattr(annotation, "__metadata__"):
        return inner(arguments[0])
    return annotation


def _path(details: ErrorDetails) -> KeyPath:
    """Return where a fault is, as a person wrote it."""
    return tuple(key for key in details["loc"] if key not in (WORD, TABLE))


def _fault(root: type[BaseModel], details: ErrorDetails) -> tuple[KeyPath, str]:
    path = _path(details)
    if path and path[-1] == "[key]":
        path = path[:-1]
    return path, _message(root, details, path)


def _message(root: type[BaseModel], details: ErrorDetails, path: KeyPath) -> str:
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    if kind == "extra_forbidden":
        return _unknown(root, path)
    if kind == "missing":
        return f"the key '{path[-1]}' is required"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return _not_one_of(root, path, value)
    if kind in _EXPECTED:
        hint = "; write it in quotes" if kind == "string_type" and isinstance(value, bool | int | float) else ""
        # The one array that may also be written as a string, which is split before pydantic sees it.
        expected = "an array of strings or a string" if path[-1:] == ("command",) else _EXPECTED[kind]
        return f"must be {expected}, not {_type_name(value)}{hint}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"must be {words} {context[bound]:g}"
    if kind == "too_short":
        return "must not be empty"
    return details["msg"]


def _unknown(root: type[BaseModel], path: KeyPath) -> str:
    key = str(path[-1])
    if root is Config and (elsewhere := _tables_with(key)):
        return f"unknown key '{key}' here; it belongs to {elsewhere}"
    if near := _nearest(root, path):
        return f"unknown key '{key}'; did you mean '{near}'?"
    return f"unknown key '{key}'; known here: {', '.join(_model_at(root, path[:-1]).model_fields)}"


def _nearest(root: type[BaseModel], path: KeyPath) -> str:
    """Return the known key that looks most like an unknown one; empty if none does."""
    known, word = _model_at(root, path[:-1]).model_fields, str(path[-1]).lower().replace("-", "_")
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=_SIMILAR)), "")


def _not_one_of(root: type[BaseModel], path: KeyPath, value: object) -> str:
    key = path[:-1] if isinstance(path[-1], int) else path  # of a list, the list
    choices = get_args(inner(_model_at(root, key[:-1]).model_fields[str(key[-1])].annotation))
    expected = " or ".join(f'"{choice}"' for choice in choices)
    if not isinstance(value, str):
        return f"must be {expected}, not {_type_name(value)}"
    near = difflib.get_close_matches(value.lower().replace("_", "-"), choices, n=1, cutoff=_SIMILAR)
    return f"must be {expected}" + (f'; did you mean "{near[0]}"?' if near else "")


def _model_at(root: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    """Return the model of the table at a path."""
    model = root
    keys = iter(path)
    for key in keys:
        annotation = model.model_fields[str(key)].annotation
        model = inner(annotation)
        if get_origin(annotation) is not None:
            # The name of a server, or a position in an array.
            next(keys, None)
    return model


def _tables_with(key: str) -> str:
    """Return the tables that have a key, as a person writes them; empty if none has it."""
    tables: dict[str, type[BaseModel]] = {"[daemon]": _model_at(Config, ("daemon",)), "[servers.NAME]": ServerConfig}
    for name, field in ServerConfig.model_fields.items():
        found = inner(field.annotation)
        if isinstance(found, type) and issubclass(found, BaseModel):
            tables[f"'{name}' of [servers.NAME]"] = found
    return " or ".join(table for table, model in tables.items() if key in model.model_fields)


def _type_name(value: object) -> str:
    return _NAMES.get(type(value), "a date or time")
