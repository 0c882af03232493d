"""What one host knows of the lists."""

from __future__ import annotations

import pytest

from supervisord_mcp.protocol import lists as module
from supervisord_mcp.protocol.lists import Cursors, KnownLists, _digest


def test_a_host_is_told_once_until_it_asks() -> None:
    lists = KnownLists()
    assert lists.changed("tools", can_be_told=True)
    assert not lists.changed("tools", can_be_told=True)
    assert lists.changed("prompts", can_be_told=True)
    assert lists.asked("tools/list", None)
    assert lists.changed("tools", can_be_told=True)
    assert not lists.changed("prompts", can_be_told=True)


def test_both_lists_of_resources_change_together() -> None:
    lists = KnownLists()
    assert lists.changed("resources", can_be_told=True)
    assert lists.asked("resources/templates/list", None)
    assert lists.changed("resources", can_be_told=True)


def test_what_cannot_be_told_is_owed() -> None:
    lists = KnownLists()
    assert not lists.changed("tools", can_be_told=False)
    assert not lists.changed("prompts", can_be_told=False)
    assert not lists.changed("resources", can_be_told=False)
    lists.asked("prompts/list", None)
    assert lists.settle() == ["resources", "tools"]
    assert lists.settle() == []
    assert not lists.changed("tools", can_be_told=True)
    assert lists.changed("prompts", can_be_told=True)


def test_a_cursor_lives_as_long_as_its_child() -> None:
    lists = KnownLists()
    lists.answered("tools/list", b'"2"')
    lists.answered("prompts/list", b'"2"')
    assert lists.asked("tools/list", b'"2"')
    lists.child_lost()
    assert not lists.asked("tools/list", b'"2"')
    assert not lists.asked("tools/list", b'"of nobody"')
    assert lists.asked("tools/list", None)
    assert not lists.asked("tools/list", b'"2"')
    assert not lists.asked("prompts/list", b'"2"')
    lists.answered("prompts/list", b'"2"')
    assert lists.asked("prompts/list", b'"2"')


def test_a_host_that_had_another_child_may_have_cursors_of_that() -> None:
    assert KnownLists().asked("tools/list", b'"2"')
    lists = KnownLists(former=True)
    assert not lists.asked("tools/list", b'"2"')
    lists.answered("tools/list", b'"2"')
    assert lists.asked("tools/list", b'"2"')


def test_asking_from_the_beginning_forgets_the_cursors_of_that_list() -> None:
    lists = KnownLists()
    for number in range(5):
        lists.answered("tools/list", b"%d" % number)
        lists.asked("tools/list", None)
    lists.answered("tools/list", b"9")
    assert lists._pages._known["tools/list"].keys() == {_digest(b"9")}


def test_it_knows_what_the_running_child_was_asked() -> None:
    lists = KnownLists()
    assert not lists.saw("tools")
    lists.passed_on("tools/list")
    assert lists.saw("tools")
    assert not lists.saw("prompts")
    lists.child_lost()
    assert not lists.saw("tools")


def test_only_so_many_cursors_are_remembered_of_each_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CURSORS", 2)
    cursors = Cursors()
    cursors.add("prompts/list", b'"1"')
    for cursor in (b'"1"', b'"2"', b'"1"', b'"3"'):
        cursors.add("tools/list", cursor)
    assert [cursor for cursor in (b'"1"', b'"2"', b'"3"') if cursors.has("tools/list", cursor)] == [b'"1"', b'"3"']
    assert cursors.has("prompts/list", b'"1"')
    cursors.forget()
    assert not cursors.has("prompts/list", b'"1"')
