"""What each version of Landlock covers, and what is said about the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes.landlock.abi import ON_FILES, READ, WRITE, Right, coverage, uncovered

ABIS = st.integers(1, 20)


@pytest.mark.parametrize(
    ("abi", "right"), [(2, Right.REFER), (3, Right.TRUNCATE), (5, Right.IOCTL_DEV), (9, Right.RESOLVE_UNIX)]
)
def test_a_right_is_covered_from_its_version_on(abi: int, right: Right) -> None:
    assert right not in coverage(abi - 1, network=False).files
    assert right in coverage(abi, network=False).files


def test_the_first_version_covers_all_that_changes_files_but_truncation() -> None:
    assert coverage(1, network=False).files == Right(0x1FFF)


def test_tcp_is_covered_from_version_4_on_unless_it_is_granted() -> None:
    assert coverage(3, network=False).network == 0
    assert coverage(4, network=False).network == 3
    assert coverage(4, network=True).network == 0


def test_signals_and_abstract_sockets_are_covered_from_version_6_on() -> None:
    assert coverage(5, network=True).scoped == 0
    assert coverage(6, network=True).scoped == 3


@given(abi=ABIS, network=st.booleans(), own_user=st.booleans())
def test_a_newer_kernel_leaves_no_more_open(abi: int, network: bool, own_user: bool) -> None:
    older = set(uncovered(abi, network=network, own_user=own_user))
    newer = set(uncovered(abi + 1, network=network, own_user=own_user))
    assert newer <= older
    assert newer  # a reduced isolation is never called complete


@given(abi=ABIS, network=st.booleans())
def test_a_user_of_its_own_has_no_other_processes(abi: int, network: bool) -> None:
    assert not any("its user" in line for line in uncovered(abi, network=network, own_user=True))
    assert any("its user" in line for line in uncovered(abi, network=network, own_user=False))


def test_a_shared_network_is_named() -> None:
    assert any("network of the machine" in line for line in uncovered(9, network=True, own_user=True))
    assert not any("network of the machine" in line for line in uncovered(9, network=False, own_user=True))


def test_who_may_read_may_not_change_anything() -> None:
    assert READ & ~(Right.EXECUTE | Right.READ_FILE | Right.READ_DIR) == 0
    assert READ & WRITE == READ
    assert not WRITE & (Right.MAKE_CHAR | Right.MAKE_BLOCK)
    assert not ON_FILES & (Right.READ_DIR | Right.MAKE_REG | Right.REFER)
