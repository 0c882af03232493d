"""What the two ends of a connection say, checked against the official schema of the revision they speak.

A `Wire` is one connection between a client and a server. It is told every message with its side, follows which revision
is spoken (`initialize`, or the version in each request of 2026-07-28), remembers what every open request asked for, and
returns what is wrong with a message:

    wire = Wire()
    wire.fault("client", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

Methods that no revision knows are checked as far as JSON-RPC goes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

Json = Any
Side = Literal["client", "server"]

SCHEMAS = Path(__file__).resolve().parents[1] / "schema"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
TASKS = "ext-tasks"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
#: The one revision whose lines may be arrays.
BATCHES = "2025-03-26"
#: Longer messages are checked by their envelope alone: the validator would take minutes.
LONGEST = 200_000

_UNIONS = {
    "client": ("ClientRequest", "ClientNotification"),
    "server": ("ServerRequest", "ServerNotification"),
}
#: Requests whose answer has another name than their own.
_RESULTS = {
    "ping": "EmptyResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "logging/setLevel": "EmptyResult",
}
_EXTENSION = {
    "tasks/get": "GetTask",
    "tasks/update": "UpdateTask",
    "tasks/cancel": "CancelTask",
}
#: Errors of 2026-07-28 that have a shape of their own.
_ERRORS = {-32021: "MissingRequiredClientCapabilityError", -32022: "UnsupportedProtocolVersionError"}


class Schema:
    """The schema of one revision, by the names of its definitions."""

    def __init__(self, revision: str) -> None:
        self._schema: dict[str, Json] = json.loads((SCHEMAS / f"{revision}.json").read_text())
        self._key = "$defs" if "$defs" in self._schema else "definitions"
        self.definitions: dict[str, Json] = self._schema[self._key]
        self._validator = Draft202012Validator if self._key == "$defs" else Draft7Validator

    @functools.cache  # noqa: B019 - there are six schemas, and they live as long as the tests
    def validator(self, name: str) -> Validator:
        """Return the validator of a definition."""
        schema = {"$schema": self._schema["$schema"], self._key: self.definitions, "$ref": f"#/{self._key}/{name}"}
        return self._validator(schema)

    @functools.cache  # noqa: B019
    def methods(self, side: Side) -> Mapping[str, str]:
        """Return the definition of each request and notification that a side may send, by its method."""
        found: dict[str, str] = {}
        for union in _UNIONS[side]:
            for name in self._members(union):
                found[self.definitions[name]["properties"]["method"]["const"]] = name
        return found

    def _members(self, name: str) -> Iterator[str]:
        definition = self.definitions.get(name, {})
        if "properties" in definition:  # a union of one is written as that one
            method = definition["properties"]["method"]["const"]
            yield next(
                other
                for other, one in self.definitions.items()
                if other != name and one.get("properties", {}).get("method", {}).get("const") == method
            )
        for member in definition.get("anyOf", ()):
            yield member["$ref"].rpartition("/")[2]

    def result_of(self, method: str) -> str:
        """Return the definition of the result of a request; that of any result for a method that is unknown."""
        asked = self.methods("client").get(method) or self.methods("server").get(method)
        return _RESULTS.get(method) or (asked.removesuffix("Request") + "Result" if asked else "Result")

    def fault(self, name: str, value: Json) -> str | None:
        """Return what is wrong with a value of a definition, or None."""
        error = best_match(self.validator(name).iter_errors(value))
        return None if error is None else f"{name}: {error.message[:500]} at {error.json_path}"


schema = functools.cache(Schema)


class Wire:
    """One connection; ``revision`` is what is spoken on it since it is known."""

    def __init__(self) -> None:
        self.revision: str | None = None
        # What the client would like to speak, as long as the server has not answered.
        self._wanted: str | None = None
        #: For each side that asks: the method and the revision of every request that is not answered, by its id.
        self._open: dict[Side, dict[str, tuple[str, str | None, Json]]] = {"client": {}, "server": {}}

    def fault(self, side: Side, message: Json, size: int = 0) -> str | None:
        """One side says a message; return what is wrong with it, or None."""
        if isinstance(message, list):
            if self.revision not in (None, BATCHES):
                return f"an array in revision {self.revision}"
            faults = [self.fault(side, one) for one in message]
            return next((fault for fault in faults if fault), None) if message else "an empty array"
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return "no JSON-RPC message"
        if "method" in message:
            return self._said(side, message, size)
        return self._answered(side, message, size)

    def _said(self, side: Side, message: dict[str, Json], size: int) -> str | None:
        params, method = message.get("params", {}), message["method"]
        if not isinstance(params, dict):
            return "params must be an object"
        meta = params.get("_meta")
        claimed = meta.get(VERSION_KEY) if isinstance(meta, dict) and "id" in message else None
        revision = self.revision or self._wanted
        if method == "initialize" and params.get("protocolVersion") in LEGACY:
            revision = self._wanted = params["protocolVersion"]
        elif claimed is not None and revision in (None, MODERN):
            revision = MODERN
            if method != "server/discover":
                self.revision = MODERN
        if "id" in message:
            identity = message["id"]
            if isinstance(identity, bool) or not isinstance(identity, int | str):
                return f"id {identity!r} is none"
            # An id that is in use stays that of the first request.
            self._open[side].setdefault(json.dumps(identity), (method, revision, params))
        elif method == "notifications/cancelled":
            self._open[side].pop(json.dumps(params.get("requestId")), None)
        if revision is None or size > LONGEST:
            return None
        return self._check_said(side, message, schema(revision), revision)

    def _check_said(self, side: Side, message: dict[str, Json], known: Schema, revision: str) -> str | None:
        method = message["method"]
        name = known.methods(side).get(method)
        if name is None and revision == MODERN and method in _EXTENSION and side == "client":
            return schema(TASKS).fault(f"{_EXTENSION[method]}Request", message)
        if name is None and revision == MODERN and method == "notifications/tasks" and side == "server":
            return schema(TASKS).fault("TaskStatusNotification", message)
        if name is None:
            other: Side = "server" if side == "client" else "client"
            if method in known.methods(other):
                return f"a {side} does not send {method}"
            if revision == MODERN and side == "server" and "id" in message:
                return "a server sends no requests"
            return known.fault("JSONRPCRequest" if "id" in message else "JSONRPCNotification", message)
        return known.fault(name, message)

    def _answered(self, side: Side, message: dict[str, Json], size: int) -> str | None:
        asker: Side = "server" if side == "client" else "client"
        identity = message.get("id")
        # Some servers return numbers as text.
        asked = self._open[asker].pop(json.dumps(identity), None) or self._open[asker].pop(str(identity), None)
        method, revision, params = asked or ("", self.revision, {})
        if "error" in message:
            return self._check_error(message, revision)
        if "result" not in message:
            return "neither a result nor an error"
        if asked is None:
            return None  # nobody waits for it (any more), so nobody reads it
        result = message["result"]
        if method == "initialize" and isinstance(result, dict) and result.get("protocolVersion") in LEGACY:
            revision = self.revision = result["protocolVersion"]
        if revision is None or size > LONGEST:
            return None
        if revision == MODERN and side == "client":
            return "a client of 2026-07-28 answers nothing"
        return self._check_result(method, result, revision, params)

    @staticmethod
    def _check_error(message: dict[str, Json], revision: str | None) -> str | None:
        # JSON-RPC wants null where the id could not be read, which no schema of MCP allows.
        told = {key: value for key, value in message.items() if key != "id" or value is not None}
        code: Json = told["error"].get("code") if isinstance(told["error"], dict) else None
        if revision == MODERN:
            forbidden = code in (-32002, -32042) or (isinstance(code, int) and -32099 <= code <= -32023)
            if forbidden:
                return f"error {code} does not exist in {MODERN}"
            return schema(revision).fault(_ERRORS.get(code, "JSONRPCErrorResponse"), told)
        return schema(LEGACY[-1]).fault("JSONRPCErrorResponse", told)

    @staticmethod
    def _check_result(method: str, result: Json, revision: str, params: dict[str, Json]) -> str | None:
        known = schema(revision)
        if revision == MODERN and method in _EXTENSION:
            return schema(TASKS).fault(f"{_EXTENSION[method]}Result", result)
        kind = result.get("resultType") if isinstance(result, dict) else None
        if revision == MODERN and kind == "task" and method == "tools/call":
            return schema(TASKS).fault("CreateTaskResult", result)
        if revision == MODERN and kind == "input_required":
            if method not in ("tools/call", "prompts/get", "resources/read"):
                return f"{method} is answered with input_required"
            return known.fault("InputRequiredResult", result)
        if "task" in params and isinstance(result, dict) and "task" in result and revision == LEGACY[-1]:
            return known.fault("CreateTaskResult", result)
        return known.fault(known.result_of(method), result)
