"""A profile as its file holds it: named rules of isolation, made from the same tables as a server entry."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, field_validator, model_validator

from supervisord_mcp.config.container import ContainerDefaults
from supervisord_mcp.config.daemon import Table
from supervisord_mcp.config.fields import Environment, Kind, ProfileName, VariableName
from supervisord_mcp.config.models import Limits, Mount, Network, RuntimeName, Scope, SystemCalls
from supervisord_mcp.config.values import FrozenTable

#: What a profile grants; the keys that a child takes over from its parent.
Grant = Literal["runtime", "network", "mounts", "limits", "seccomp", "scope", "container", "env", "inherit"]
#: The keys that a child may name in `override`.
Loosened = Literal["runtime", "network", "mounts", "limits", "seccomp", "scope", "env", "inherit", "confirm"]


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    if "\n" in text.strip():
        raise ValueError("must be on one line")
    return text.strip()


_Line = Annotated[str, AfterValidator(_check_text)]


class Profile(Table):
    """The file profiles/NAME.toml: the rules of isolation that entries name with `profile = "NAME"`."""

    description: _Line = Field(description="What it is for, on one line.", examples=["servers that read the project"])
    extends: ProfileName | None = Field(
        default=None,
        description="The profile that it begins with. What is not said here is as it is there; `limits`,"
        " `seccomp`, `env` and `container` count key by key.",
        examples=["default"],
    )
    override: Annotated[tuple[Loosened, ...], Kind("list of keys")] = Field(
        default=(),
        description="The keys with which it may grant more than the profile that it extends; all others only tighten.",
        examples=[["network"]],
    )
    dangerous: StrictBool = Field(
        default=False,
        description="Whether it may grant what no server should have (see `smcp profile lint`); needs a `reason`.",
    )
    reason: Annotated[_Line | None, Kind("string")] = Field(
        default=None, description="Why it is dangerous, and what for. Shown to whoever uses it."
    )
    confirm: StrictBool = Field(
        default=False, description='Whether an entry must repeat the name: `confirm = "NAME"`, so that it is meant.'
    )
    runtime: RuntimeName = Field(default="bwrap", description="As in an entry.")
    network: Network = Field(default="none", description="As in an entry.")
    mounts: tuple[Mount, ...] = Field(
        default=(), description="As in an entry; replaces the whole list of the profile that it extends."
    )
    limits: Limits = Field(default=Limits(), description="As in an entry.")
    seccomp: SystemCalls = Field(default=SystemCalls(), description="As in an entry.")
    scope: Scope = Field(default="auto", description="As in an entry; `session` is for servers that keep a state.")
    container: ContainerDefaults = Field(
        default=ContainerDefaults(), description="As in an entry: the images in which packages run, and the user."
    )
    env: Environment = Field(default=FrozenTable(), description="As in an entry. Secrets do not belong here.")
    inherit: Annotated[tuple[VariableName, ...], Kind("list of names")] = Field(
        default=(), description="As in an entry; replaces the whole list of the profile that it extends."
    )

    @field_validator("mounts")
    @classmethod
    def _distinct(cls, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
        paths = [mount.path for mount in mounts]
        if len(set(paths)) < len(paths):
            raise ValueError("the same path is mounted twice")
        return mounts

    @model_validator(mode="after")
    def _reasoned(self) -> Self:
        if self.dangerous and self.reason is None:
            raise ValueError('dangerous = true needs a reason, in words: reason = "…"')
        if self.override and self.extends is None:
            raise ValueError("override means the profile that is extended, and there is none; name it with extends")
        return self
