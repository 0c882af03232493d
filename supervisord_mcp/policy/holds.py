"""What a person stopped stays stopped: everywhere, or in one project, until a person starts it again there."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Hold:
    """Where one server is held. ``everywhere`` is the rule, ``exceptions`` are the projects where it is the opposite.

    The word that came last counts: a server that was stopped everywhere and then started in one project is held in all
    others, and one that was stopped in one project and then stopped everywhere is held in all.
    """

    everywhere: bool = False
    exceptions: frozenset[str] = frozenset()

    def holds(self, project: str | None) -> bool:
        """Return whether hosts of a project (None: of no project) cannot start the server."""
        return self.everywhere != (project in self.exceptions)

    def put(self, held: bool, project: str | None) -> Hold:
        """Return the hold after a person stopped (``held``) or started the server, in a project, or (None) at all."""
        if project is None:
            return Hold(everywhere=held)
        if held == self.everywhere:
            return replace(self, exceptions=self.exceptions - {project})
        return replace(self, exceptions=self.exceptions | {project})


#: Of a server that nobody stopped.
FREE = Hold()
