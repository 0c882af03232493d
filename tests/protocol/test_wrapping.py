"""Output schemas with any root become objects, and what they refer to stays the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from supervisord_mcp.protocol import wrapping

Json = Any


def wrapped(schema: Json) -> Json:
    return json.loads(wrapping.wrap_schema(json.dumps(schema).encode()))


def tool(name: Json, schema: Json = None) -> bytes:
    told = {"name": name, "inputSchema": {"type": "object"}}
    return json.dumps(told if schema is None else {**told, "outputSchema": schema}).encode()


@pytest.mark.parametrize(
    ("schema", "is_wrapped"),
    [
        ({"type": "object"}, False),
        ({"type": "array"}, True),
        ({"type": ["object", "null"]}, True),
        ({"$ref": "#/$defs/o", "$defs": {"o": {"type": "object"}}}, True),
        ({}, True),
        (True, True),
    ],
)
def test_a_root_that_is_no_object_is_wrapped(schema: Json, is_wrapped: bool) -> None:
    assert wrapping.is_wrapped(tool("t", schema)) is is_wrapped


def test_the_tools_whose_values_are_wrapped_are_known_by_name() -> None:
    tools = [tool("plain"), tool("object", {"type": "object"}), tool("list", {"type": "array"}), tool(5, {}), b"3"]
    assert wrapping.wrapped_tools(tools) == {"list"}


def test_a_schema_becomes_the_property_result() -> None:
    assert wrapped({"type": "array", "items": {"type": "string"}}) == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"type": "string"}}},
        "required": ["result"],
    }
    assert wrapping.wrap_value(b"[1e400]") == b'{"result":[1e400]}'


def test_the_dialect_stays_at_the_root() -> None:
    outer = wrapped({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"})
    assert outer["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert outer["properties"] == {"result": {"type": "string"}}


def test_a_schema_that_is_a_document_of_its_own_stays_as_it_is() -> None:
    inner = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:x", "items": {"$ref": "#"}}
    assert wrapped(inner)["properties"]["result"] == inner
    nested = {"items": {"$id": "urn:x", "not": {"$ref": "#/a"}}, "contains": {"$ref": "#/a"}}
    assert wrapped(nested)["properties"]["result"] == {
        "items": {"$id": "urn:x", "not": {"$ref": "#/a"}},
        "contains": {"$ref": "#/properties/result/a"},
    }


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize(
    ("target", "moved"),
    [
        ("#", "#/properties/result"),
        ("#/$defs/a", "#/properties/result/$defs/a"),
        ("#anchor", "#anchor"),
        ("other.json#/a", "other.json#/a"),
        (5, 5),
    ],
)
def test_references_to_the_root_follow_it(keyword: str, target: Json, moved: Json) -> None:
    assert wrapped({"anyOf": [{keyword: target}, {}]})["properties"]["result"] == {"anyOf": [{keyword: moved}, {}]}


def test_only_keywords_refer() -> None:
    schema = {
        "properties": {"$ref": {"$ref": "#/x"}, "enum": {"$ref": "#/y"}},
        "enum": [{"$ref": "#/x"}],
        "default": {"$ref": "#"},
    }
    assert wrapped(schema)["properties"]["result"] == {
        "properties": {"$ref": {"$ref": "#/properties/result/x"}, "enum": {"$ref": "#/properties/result/y"}},
        "enum": [{"$ref": "#/x"}],
        "default": {"$ref": "#"},
    }


def test_a_schema_without_references_keeps_its_bytes() -> None:
    text = b'{ "type":"array", "items" : { "maximum": 1e400 }, "prefixItems":[ {} ] }'
    assert text in wrapping.wrap_schema(text)


def test_the_deepest_schemas_are_left_alone() -> None:
    deep = '{"not":' * 300 + '{"$ref":"#"}' + "}" * 300
    assert json.loads(wrapping.wrap_schema(deep.encode()))["properties"]["result"] == json.loads(deep)


LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"$ref": "#"}, {"$ref": "#/$defs/d"}, True])
SCHEMAS = st.builds(
    lambda root, definition: {**root, "$defs": {"d": definition}},
    st.one_of(
        st.builds(lambda leaf: {"type": "array", "items": leaf}, LEAVES),
        st.builds(lambda leaves: {"anyOf": [{"type": "null"}, *leaves]}, st.lists(LEAVES)),
        st.builds(lambda leaf: {"type": ["object", "null"], "additionalProperties": leaf}, LEAVES),
    ),
    st.sampled_from([{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]),
)
PLAIN = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@given(SCHEMAS, PLAIN)
def test_a_value_fits_wrapped_exactly_when_it_fits_as_it_is(schema: Json, value: Json) -> None:
    if {"$ref": "#"} in schema.get("anyOf", []):
        return  # it refers to itself without end: no validator decides it
    outer = wrapped(schema)
    Draft202012Validator.check_schema(outer)
    told = json.loads(wrapping.wrap_value(json.dumps(value).encode()))
    assert Draft202012Validator(outer).is_valid(told) is Draft202012Validator(schema).is_valid(value)
