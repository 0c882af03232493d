"""Secrets in the spec of one start, and in nothing that lasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.config.references import parse_reference
from supervisord_mcp.credentials.giving import Giving
from supervisord_mcp.credentials.reading import Credentials, Grant
from supervisord_mcp.errors import SecretError
from supervisord_mcp.runtimes.base import LaunchSpec
from tests.credentials.places import paths_in
from tests.kit.bounded import bounded

VALUE = "s3cret-in-a-spec"
SPEC = LaunchSpec("s", ("/bin/true",), env=(("A", "1"),))
GRANTS = (Grant("TOKEN", parse_reference("env:E")),)


@bounded(30)
async def test_as_variables_or_as_files(tmp_path: Path) -> None:
    credentials = Credentials(paths_in(tmp_path), {"E": VALUE})
    given = await Giving(GRANTS, "env", credentials).given(SPEC)
    assert given.env == (("A", "1"), ("TOKEN", VALUE))
    given = await Giving(GRANTS, "file", credentials, "/place").given(SPEC)
    assert given.env == (("A", "1"),)
    assert (given.secrets.place, given.secrets.values) == ("/place", (("TOKEN", VALUE),))
    assert VALUE not in repr(given)
    with pytest.raises(SecretError):
        await Giving((Grant("T", parse_reference("env:NONE")),), "env", credentials).given(SPEC)


@bounded(30)
async def test_nothing_is_given_where_nothing_is_granted(tmp_path: Path) -> None:
    assert await Giving().given(SPEC) is SPEC
    assert (Giving().words, Giving().variables) == ((), ())


def test_what_tells_it_apart_and_is_shown_has_no_values(tmp_path: Path) -> None:
    giving = Giving(GRANTS, "file", Credentials(paths_in(tmp_path), {"E": VALUE}), "/place")
    assert giving.words == (("TOKEN", "env:E", "file"),)
    assert giving.named(SPEC).env == (("A", "1"), ("TOKEN", ""))
    assert VALUE not in repr(giving)
