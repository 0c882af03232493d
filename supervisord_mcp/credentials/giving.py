"""Secrets on their way into a child: read when it is started, put into its spec, and kept nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from supervisord_mcp.credentials.reading import Credentials, Grant
from supervisord_mcp.runtimes.base import LaunchSpec, SecretFiles


@dataclass(frozen=True, slots=True)
class Giving:
    """What a server is granted, how it gets it, and who reads it. ``place`` is for files where there is no sandbox."""

    grants: tuple[Grant, ...] = ()
    deliver: Literal["env", "file"] = "env"
    credentials: Credentials | None = field(default=None, repr=False)
    place: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the child will have."""
        return tuple(grant.variable for grant in self.grants)

    @property
    def words(self) -> tuple[tuple[str, str, str], ...]:
        """What tells it from another one: no values, which change while nothing else does."""
        return tuple((grant.variable, str(grant.reference), self.deliver) for grant in self.grants)

    async def given(self, spec: LaunchSpec) -> LaunchSpec:
        """Return the spec of one start with the values in it. Raise `SecretError` where one cannot be read."""
        if not self.grants or self.credentials is None:
            return spec
        values = await self.credentials.values(spec.name, self.grants)
        pairs = tuple((variable, values[variable]) for variable in self.variables)
        if self.deliver == "file":
            return replace(spec, secrets=SecretFiles(self.place, pairs))
        return replace(spec, env=(*spec.env, *pairs))

    def named(self, spec: LaunchSpec) -> LaunchSpec:
        """Return the spec with the names of the variables alone, to be shown."""
        return replace(spec, env=(*spec.env, *((variable, "") for variable in self.variables)))
