"""What one host knows of the lists."""

from __future__ import annotations

from supervisord_mcp.protocol.lists import KnownLists


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
    lists.answered("prompts/list", None)
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
    assert len(lists._pages) == 1


def test_it_knows_what_the_running_child_was_asked() -> None:
    lists = KnownLists()
    assert not lists.saw("tools")
    lists.passed_on("tools/list")
    assert lists.saw("tools")
    assert not lists.saw("prompts")
    lists.child_lost()
    assert not lists.saw("tools")
