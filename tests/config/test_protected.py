"""What stays read-only in a writable mount, and how it is taken back."""

from __future__ import annotations

import pytest

from supervisord_mcp.config.models import Mount
from supervisord_mcp.config.protected import ALWAYS, IF_THERE, check_unprotected, remaining


def test_names_are_hidden_relative_paths_each_once() -> None:
    names = (*ALWAYS, *IF_THERE)
    assert len(set(names)) == len(names)
    assert all(name.startswith(".") and ".." not in name.split("/") for name in names)


def test_a_name_takes_back_itself_and_what_is_below() -> None:
    assert remaining(ALWAYS, [".vscode"]) == tuple(name for name in ALWAYS if name != ".vscode")
    assert not [name for name in remaining(ALWAYS, [".git"]) if name.startswith(".git/")]
    assert ".github/workflows" in remaining(ALWAYS, [".git"])
    assert remaining(ALWAYS, []) == ALWAYS


def test_only_what_is_protected_can_be_taken_back() -> None:
    assert check_unprotected((".git/hooks", ".git", ".husky")) == (".git/hooks", ".git", ".husky")
    for name in ("src", ".vscode/tasks.json", ".gi", "", "/"):
        with pytest.raises(ValueError, match="not protected"):
            check_unprotected((name,))
    assert Mount.model_validate({"path": "/a", "access": "rw", "unprotected": [".idea"]}).unprotected == (".idea",)
