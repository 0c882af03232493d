"""The sample file, the JSON schema and the reference of the settings, all made from the models."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import tomli_w
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from supervisord_mcp.config.container import ContainerDefaults
from supervisord_mcp.config.daemon import Audit, DaemonConfig, Metrics, Table
from supervisord_mcp.config.faults import inner
from supervisord_mcp.config.fields import SERVER_NAME, Kind
from supervisord_mcp.config.lifetime import Backoff, Budget, Log
from supervisord_mcp.config.models import Config, Install, Limits, Mount, Reach, ServerConfig, SystemCalls
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.variables import Reference, parse
from supervisord_mcp.policy.tokens import conceal

#: What is shown instead of a value that could be a secret.
MASK = "***"

_EXAMPLE = "time"
#: The keys of an entry that say what runs; one of them is needed, and the first is in the sample.
_RUNS = ("command", "image", "package")
_WIDTH = 100
_SAMPLE_HEAD = (
    'Settings of smcp. A line that begins with "#" and a key holds the default; remove the "#" to change it.'
    ' Durations are written as "500ms", "90s", "10m", "2h", "1d" or a number of seconds, sizes as "512K", "64M", "1G"'
    " or a number of bytes. In commands, arguments, paths and env, ${NAME} is a variable of the environment,"
    " ${NAME:-text} one with a default, ${project} the project directory of the host, ~ your home directory, and $$ a"
    " dollar sign. More servers can be in conf.d/*.toml beside this file."
)
_SECTIONS: tuple[tuple[str, type[Table]], ...] = (
    ("[daemon]", DaemonConfig),
    ("[audit]", Audit),
    ("[metrics]", Metrics),
    ("[servers.NAME]", ServerConfig),
    ("mounts of [servers.NAME], a list of tables", Mount),
    ("network of [servers.NAME], as a table", Reach),
    ("[servers.NAME.install]", Install),
    ("[servers.NAME.container]", ContainerDefaults),
    ("[servers.NAME.budget]", Budget),
    ("[servers.NAME.backoff]", Backoff),
    ("[servers.NAME.limits]", Limits),
    ("[servers.NAME.seccomp]", SystemCalls),
    ("[servers.NAME.log]", Log),
)
_OWN_FILES: tuple[tuple[str, type[Table]], ...] = (("profiles/NAME.toml", Profile),)


def sample() -> str:
    """Return a configuration file with one working server that names every key with its default and its meaning."""
    lines = [*_comment(_SAMPLE_HEAD), "", *_comment(DaemonConfig.__doc__ or ""), "[daemon]"]
    lines += _sample_keys(DaemonConfig, DaemonConfig().model_dump(mode="json"))
    lines += ["", *_comment(Audit.__doc__ or ""), "[audit]"]
    lines += _sample_keys(Audit, Audit().model_dump(mode="json"))
    lines += ["", *_comment(Metrics.__doc__ or ""), "[metrics]"]
    lines += _sample_keys(Metrics, Metrics().model_dump(mode="json"))
    lines += ["", *_comment(f"{ServerConfig.__doc__} The table is named after the server."), f"[servers.{_EXAMPLE}]"]
    lines += _sample_keys(ServerConfig, _example().model_dump(mode="json"))
    return "\n".join(lines) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, for editors that complete and check TOML."""
    found = Config.model_json_schema(schema_generator=_Schema)
    servers = found["properties"]["servers"]
    servers.pop("patternProperties", None)
    servers["propertyNames"] = {"pattern": f"^{SERVER_NAME.pattern}$"}
    servers["additionalProperties"] = {"$ref": "#/$defs/ServerConfig"}
    found["$defs"]["ServerConfig"]["anyOf"] = [{"required": [key]} for key in _RUNS]
    for model in (section[1] for section in _SECTIONS):
        properties, defaults = found["$defs"][model.__name__]["properties"], _defaults(model)
        for key, field in model.model_fields.items():
            properties[key]["description"] = f"{field.description} Value: {_kind(field)}."
            if key in defaults:
                properties[key]["default"] = defaults[key]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def reference() -> str:
    """Return the settings as Markdown, one table for each table of the configuration."""
    blocks = []
    for title, model in (*_SECTIONS, *_OWN_FILES):
        heading = re.sub(r"(\[[^]]*\])", r"`\1`", title)
        rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
        rows += [_row(key, field, _defaults(model)) for key, field in model.model_fields.items()]
        blocks.append("\n".join([f"#### {heading}", "", model.__doc__ or "", "", *rows]))
    return "\n\n".join(blocks) + "\n"


def show(config: Config) -> str:
    """Return a configuration as TOML, defaults included.

    Literal values of ``env`` could be secrets and are masked; so is what looks like one in a command.
    """
    data = config.model_dump(mode="json")
    for name, server in data["servers"].items():
        server["env"] = {variable: mask(value) for variable, value in server["env"].items()}
        for words in ("command", "args"):
            server[words] = [conceal(word, MASK) for word in server[words]]
        # TOML has no word for nothing.
        data["servers"][name] = {key: value for key, value in server.items() if value is not None}
    return tomli_w.dumps(data)


def mask(text: str) -> str:
    """Return a text of the language of variables with its literal parts masked, those in defaults too."""
    shown: list[str] = []
    for part in parse(text):
        if isinstance(part, Reference):
            shown.append(str(part))
        elif shown[-1:] != [MASK]:
            shown.append(MASK)
    return "".join(shown)


class _Schema(GenerateJsonSchema):
    """Schema without titles that only repeat the key; defaults are set by us, as a person writes them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


def _example() -> ServerConfig:
    return ServerConfig(command=("uvx", "mcp-server-time"))


def _defaults(model: type[Table]) -> dict[str, Any]:
    """Return the default of every key that has one, in the words of a configuration file."""
    whole: dict[type[Table], Table] = {
        ServerConfig: _example(),
        Mount: Mount(path="/"),
        Reach: Reach(allow=("internet",)),
        Profile: Profile(description="x"),
    }
    values = (whole[model] if model in whole else model()).model_dump(mode="json")
    said = whole[model].model_fields_set if model in whole else ()
    return {key: values[key] for key, field in model.model_fields.items() if not (field.is_required() or key in said)}


def _sample_keys(model: type[Table], values: Mapping[str, Any]) -> Iterator[str]:
    for key, field in model.model_fields.items():
        value = values[key] if values[key] or not field.examples else field.examples[0]
        note = "" if values[key] or not field.examples else " Not set by default; for example:"
        yield ""
        yield from _comment(_plain(f"{field.description} Value: {_kind(field)}.{note}"))
        nested = inner(field.annotation)
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            for name, inside in nested.model_fields.items():
                yield from _comment(_plain(f"- {name}: {inside.description} Value: {_kind(inside)}."))
        needed = field.is_required() or (model is ServerConfig and key == _RUNS[0])
        yield f"{'' if needed else '#'}{key} = {_toml(value)}"


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"


def _row(key: str, field: FieldInfo, defaults: Mapping[str, Any]) -> str:
    default = "required" if field.is_required() else _default_cell(defaults.get(key))
    meaning = (field.description or "").replace("${project}", "`${project}`").replace("|", "\\|")
    return f"| `{key}` | {_kind(field)} | {default} | {meaning} |"


def _default_cell(value: Any) -> str:
    if value in (None, [], {}):
        return "–"
    return f"`{_toml(value)}`"


def _kind(field: FieldInfo) -> str:
    """Return what a person may write for a setting, in words."""
    if words := next((item.name for item in field.metadata if isinstance(item, Kind)), ""):
        return words
    found = inner(field.annotation)
    if get_origin(found) is Literal:
        return ", ".join(f'`"{choice}"`' for choice in get_args(found))
    if isinstance(found, type) and issubclass(found, BaseModel):
        return "list of tables" if get_origin(field.annotation) is tuple else "table"
    return {bool: "`true`, `false`", int: "integer"}.get(found, "string")


def _plain(text: str) -> str:
    return text.replace("`", "")


def _toml(value: Any) -> str:
    """Return a value on one line of TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(inside)}" for key, inside in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")
