"""What is written down about servers fits our own configuration."""

from __future__ import annotations

import pytest

from supervisord_mcp.adoption.knowledge import PACKAGES, PROGRAMS, Known
from supervisord_mcp.config.fields import check_rules
from supervisord_mcp.config.profiles import find_profiles
from tests.config.places import paths_in


@pytest.mark.parametrize("known", PACKAGES.values(), ids=PACKAGES)
def test_profiles_and_rules_are_there(known: Known, tmp_path_factory: pytest.TempPathFactory) -> None:
    profile = find_profiles(paths_in(tmp_path_factory.getbasetemp() / "none")).effective(known.profile).profile
    assert profile.runtime == "bwrap"
    assert check_rules(known.hosts) == known.hosts
    assert not (known.hosts and profile.network == "none")


@pytest.mark.parametrize("profile", sorted(set(PROGRAMS.values())))
def test_a_server_that_nobody_knows_reaches_what_is_public(
    profile: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    profiles = find_profiles(paths_in(tmp_path_factory.getbasetemp() / "none"))
    assert profiles.effective(profile).profile.network == "internet"
