"""The program that enters a network: what it says when it must not, or cannot."""

from __future__ import annotations

import os
import struct

import pytest

from supervisord_mcp.runtimes.egress import agent


def test_the_network_of_this_machine_is_never_entered() -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="network of the machine"):
            agent.enter(own)
    finally:
        os.close(own)


def test_what_is_no_network_is_not_entered() -> None:
    other = os.open("/dev/null", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Inappropriate ioctl"):
            agent.enter(other)
    finally:
        os.close(other)


def test_messages_of_the_kernel_are_told_apart() -> None:
    one = struct.pack("=IHHII", 19, 2, 0, 7, 0) + b"abc\0"
    two = struct.pack("=IHHII", 16, 3, 0, 8, 0)
    assert agent._messages(one + two) == [(2, 7, b"abc"), (3, 8, b"")]
    assert agent._messages(struct.pack("=IHHII", 4, 2, 0, 7, 0)) == []
    assert agent._attribute(1, b"abcde") == struct.pack("=HH", 9, 1) + b"abcde\0\0\0"


def test_an_error_of_the_kernel_is_one() -> None:
    agent._raise(struct.pack("=i", 0))
    with pytest.raises(PermissionError):
        agent._raise(struct.pack("=i", -1))
