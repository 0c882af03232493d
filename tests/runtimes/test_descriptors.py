"""What travels to bubblewrap through descriptors."""

from __future__ import annotations

import os

from supervisord_mcp.runtimes.descriptors import Descriptors
from supervisord_mcp.runtimes.sandbox import Data


def test_arguments_and_files_are_rendered() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with Descriptors() as descriptors:
        option, number = descriptors.render([("--bind", "/a b", "/c"), Data("/etc/x", "text\n"), ("--chdir", "/")])
        assert option == "--args"
        words = os.read(int(number), 4096).split(b"\0")
        assert words[:6] == [b"--bind", b"/a b", b"/c", b"--perms", b"0444", b"--file"]
        assert words[7:] == [b"/etc/x", b"--chdir", b"/", b""]
        assert os.read(int(words[6]), 4096) == b"text\n"
        assert set(descriptors.inherited) == {int(number), int(words[6])}
        assert not any(map(os.get_inheritable, descriptors.inherited))
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_file_has_its_content_and_no_name() -> None:
    with Descriptors() as descriptors:
        number = descriptors.file(b"a\0b")
        assert os.read(number, 9) == b"a\0b"
        assert descriptors.inherited == (number,)


def test_pipes_have_one_end_for_each_side() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with Descriptors() as descriptors:
        news, orders = descriptors.pipe_from_child(), descriptors.pipe_to_child()
        os.write(news.theirs, b"x")
        os.write(orders.ours, b"y")
        assert (os.read(news.ours, 9), os.read(orders.theirs, 9)) == (b"x", b"y")
        assert list(descriptors.inherited) == [news.theirs, orders.theirs]
        descriptors.close_inherited()
        assert not descriptors.inherited
        assert os.read(news.ours, 9) == b""
    assert sorted(os.listdir("/proc/self/fd")) == before
