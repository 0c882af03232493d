"""Paths that are opened so that nothing leads elsewhere."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.openat2 import BENEATH, IN_ROOT, NO_MAGICLINKS, NO_SYMLINKS, open_path


@contextmanager
def _opened(path: str, resolve: int, *directory: int) -> Iterator[os.stat_result]:
    descriptor = open_path(path, resolve, *directory)
    try:
        assert not os.get_inheritable(descriptor)
        yield os.fstat(descriptor)
    finally:
        os.close(descriptor)


def test_links_are_followed_only_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "top").symlink_to("/real")
    with _opened(f"{tmp_path}/real/inner", NO_SYMLINKS) as status:
        assert os.path.samestat(status, os.stat(tmp_path / "real/inner"))
    for path in ("link", "link/inner"):
        with pytest.raises(OSError, match=path) as caught, _opened(f"{tmp_path}/{path}", NO_SYMLINKS):
            pass
        assert caught.value.errno == errno.ELOOP
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)), _opened("/proc/self/root/etc", NO_MAGICLINKS):
        pass
    directory = os.open(tmp_path, os.O_PATH)
    try:
        with _opened("top/inner", IN_ROOT, directory) as status:
            assert os.path.samestat(status, os.stat(tmp_path / "real/inner"))
        with pytest.raises(OSError, match=os.strerror(errno.EXDEV)), _opened("../x", BENEATH, directory):
            pass
    finally:
        os.close(directory)
