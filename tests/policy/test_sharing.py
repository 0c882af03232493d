"""Who shares a child with whom."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.policy.sharing import (
    ConfiguredScope,
    InstanceKey,
    Resolved,
    Scope,
    digest,
    effective_scope,
    instance_key,
    scope_problem,
    uses_project,
)

SPEC = Resolved(
    argv=("/usr/bin/server", "--root=/srv"),
    cwd="/srv",
    env=(("A", "1"), ("B", "2")),
    runtime="bwrap",
    network="none",
    mounts=(("/srv", "/srv", "ro"),),
)


class TestUsesProject:
    """Case 8: what ties an entry to its project."""

    @pytest.mark.parametrize(
        "word",
        [
            "${project}",
            "--root=${project}/src",
            "${HOME:-${project}}",
            "${project:-/srv}",
            "$$${project}",
            "./x",
            "../x",
            ".",
            "..",
            "--dir=./x",
            "DIR=..",
            "--a=b=./c",
        ],
    )
    def test_words_that_do(self, word: str) -> None:
        assert uses_project(["server", word])
        assert uses_project(["server"], values=[word])
        assert uses_project(["server"], paths=[word])

    @pytest.mark.parametrize(
        "word",
        [
            "",
            "a b=./c",
            "$${project}",
            "${projects}",
            "${HOME}/x",
            "~/x",
            "/srv/./x",
            "@scope/name",
            "owner/name",
            "-v",
            ".hidden",
            "...",
            "--x=.hidden",
            "https://example.org/../x",
        ],
    )
    def test_words_that_do_not(self, word: str) -> None:
        assert not uses_project(["server", word], values=[word])

    @pytest.mark.parametrize(("path", "relative"), [("/srv", False), ("~/x", False), ("${HOME}/x", False), ("x", True)])
    def test_paths_and_a_command_with_a_slash_are_relative_unless_they_say_otherwise(
        self, path: str, relative: bool
    ) -> None:
        assert uses_project(["server"], paths=[path]) is relative
        assert uses_project([f"{path}/bin/server"]) is relative

    def test_a_plain_name_is_searched_for(self) -> None:
        assert not uses_project(["npx", "-y", "@modelcontextprotocol/server-github"], values=["x/y"], paths=["/"])
        assert not uses_project([])


class TestScope:
    """From what is configured to what is in force."""

    @pytest.mark.parametrize(
        ("configured", "uses", "scope"),
        [
            ("auto", False, "global"),
            ("auto", True, "project"),
            ("global", False, "global"),
            ("project", False, "project"),
            ("project", True, "project"),
            ("session", False, "session"),
            ("session", True, "session"),
        ],
    )
    def test_what_is_possible(self, configured: ConfiguredScope, uses: bool, scope: Scope) -> None:
        assert effective_scope(configured, uses) == scope
        assert scope_problem(configured, uses) == ""

    def test_a_server_that_uses_the_project_is_not_global(self) -> None:
        assert "uses the project" in scope_problem("global", uses_project=True)
        with pytest.raises(SmcpError, match="uses the project") as caught:
            effective_scope("global", uses_project=True)
        assert 'scope = "project"' in caught.value.remedy


words = st.text(st.characters(categories=("L", "P", "N", "Cs")), max_size=3)
pairs = st.lists(st.tuples(words, words), max_size=3).map(tuple)
specs = st.builds(
    Resolved,
    argv=st.lists(words, max_size=3).map(tuple),
    cwd=st.none() | words,
    env=pairs,
    runtime=words,
    network=words | st.lists(words, max_size=3).map(tuple),
    mounts=st.lists(st.tuples(words, words, words), max_size=2).map(tuple),
    era=words,
    capabilities=words,
)


class TestDigest:
    """One digest for one spec."""

    def test_it_is_the_same_on_every_machine_and_day(self) -> None:
        assert digest(SPEC) == "307ed5f881e97334"

    def test_every_part_counts(self) -> None:
        others = {
            "argv": ("/usr/bin/server",),
            "cwd": None,
            "env": (("A", "1"),),
            "runtime": "bare",
            "network": "host",
            "mounts": (("/srv", "/srv", "rw"),),
            "era": "modern",
            "capabilities": "roots",
            "limits": (("memory", 1),),
            "profile": "strict",
            "seccomp": ("unix",),
            "credentials": (("TOKEN", "vault:github", "env"),),
            "container": ("alpine", "podman"),
        }
        assert set(others) == {field.name for field in fields(Resolved)}
        changed = {digest(replace(SPEC, **{name: value})) for name, value in others.items()}  # type: ignore[arg-type]
        assert len(changed | {digest(SPEC)}) == len(others) + 1

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (replace(SPEC, argv=("a b",)), replace(SPEC, argv=("a", "b"))),
            (replace(SPEC, argv=("a", "")), replace(SPEC, argv=("a",))),
            (replace(SPEC, argv=('a","b',)), replace(SPEC, argv=("a", "b"))),
            (replace(SPEC, cwd=None), replace(SPEC, cwd="")),
            (replace(SPEC, env=(("A", "=1"),)), replace(SPEC, env=(("A=", "1"),))),
            (replace(SPEC, argv=("\ud83d\ude00",)), replace(SPEC, argv=("\U0001f600",))),
        ],
    )
    def test_what_looks_alike_is_different(self, one: Resolved, other: Resolved) -> None:
        assert digest(one) != digest(other)

    @given(specs, specs)
    def test_equal_if_and_only_if_equal_but_for_the_order_of_the_environment(
        self, one: Resolved, other: Resolved
    ) -> None:
        def sorted_env(spec: Resolved) -> Resolved:
            return replace(spec, env=tuple(sorted(spec.env)))

        assert (digest(one) == digest(other)) == (sorted_env(one) == sorted_env(other))
        assert digest(one) == digest(sorted_env(one)) == digest(replace(one, env=one.env[::-1]))

    def test_the_environment_is_not_shown(self) -> None:
        assert "env" not in repr(SPEC)


class TestInstanceKey:
    """Which sessions meet in one instance."""

    def test_global_ones_share_whatever_the_project(self) -> None:
        keys = {
            instance_key("s", "d", "global", project=project, session=str(project)) for project in ("/a", "/b", None)
        }
        assert keys == {InstanceKey("s", "d")}

    def test_sessions_of_one_project_share(self) -> None:
        one, two, stranger = (
            instance_key("s", "d", "project", project=project, session=session)
            for project, session in (("/a", "1"), ("/a", "2"), ("/b", "3"))
        )
        assert one == two == InstanceKey("s", "d", "/a")
        assert stranger == InstanceKey("s", "d", "/b")

    def test_sessions_alone(self) -> None:
        one = instance_key("s", "d", "session", project="/a", session="1")
        other = instance_key("s", "d", "session", project="/a", session="2")
        assert one != other
        assert one == InstanceKey("s", "d", "/a", "1")
        assert instance_key("s", "d", "session", project=None, session="1") == InstanceKey("s", "d", None, "1")

    def test_a_project_that_is_not_known_is_refused_with_the_remedy(self) -> None:
        with pytest.raises(SmcpError, match="project of this session is not known") as caught:
            instance_key("s", "d", "project", project=None, session="1")
        assert "--project" in caught.value.remedy

    def test_it_is_shown_with_what_it_belongs_to(self) -> None:
        assert str(InstanceKey("s", "d")) == "s-d"
        assert str(InstanceKey("s", "d", "/a")) == "s-d for /a"
        assert str(InstanceKey("s", "d", None, "7")) == "s-d in session 7"
