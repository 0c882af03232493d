"""What stays read-only in a directory that a server may write: files that make other programs run something later.

A hook of git, a task of an editor, a server in the file of a host: who can write them runs with the rights of the
person the next time that the program is used. All names begin with a dot, so that what stands for a missing one is not
in the way.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Protected in every case. Where there is none yet, nobody creates it while a server runs that could write it.
ALWAYS = (
    *(".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir"),
    *(".envrc", ".vscode", ".idea"),
    *(".mcp.json", ".smcp.toml", ".claude", ".cursor"),
    ".github/workflows",
)
#: Protected where they are: few projects have them.
IF_THERE = (
    *(".gitlab-ci.yml", ".circleci", ".travis.yml", ".woodpecker", ".buildkite", ".forgejo/workflows"),
    *(".gitea/workflows", ".github/actions", ".husky", ".pre-commit-config.yaml", ".devcontainer", ".zed"),
    *(".codex", ".gemini", ".windsurf", ".continue", ".roo", ".kiro", ".amazonq"),
)


def check_unprotected(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of protected paths, or of directories of them. Raise `ValueError` for any other."""
    for name in names:
        if not any(_covers(name, path) for path in (*ALWAYS, *IF_THERE)):
            raise ValueError(f"{name}: not protected anyway; protected are {', '.join((*ALWAYS, *IF_THERE))}")
    return names


def remaining(paths: Iterable[str], unprotected: Iterable[str]) -> tuple[str, ...]:
    """Return what is left of paths when names are taken back."""
    taken = tuple(unprotected)
    return tuple(path for path in paths if not any(_covers(name, path) for name in taken))


def _covers(name: str, path: str) -> bool:
    return path == name or path.startswith(f"{name}/")
