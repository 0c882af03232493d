"""The assembler: whatever is decided, the program decides the same, however far its parts are from each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes.bpf import Answer, Decision, Switch, Table, assemble, decide
from tests.runtimes.interpreter import WORD, Call, load, run

MACHINE, OTHER = 7, 8
UNKNOWN, FOREIGN, ALLOWED = Answer(1), Answer(2), Answer(0x7FFF0000)

answers = st.builds(Answer, st.integers(0, 40))
words = st.integers(0, WORD)
small = st.integers(0, 12)
arguments = st.tuples(*[st.one_of(small, words, st.integers(0, (1 << 64) - 1))] * 6)


def switches(decisions: st.SearchStrategy[Decision]) -> st.SearchStrategy[Decision]:
    """Return switches between other decisions."""
    cases = st.dictionaries(st.one_of(small, words), decisions, max_size=5).map(lambda found: tuple(found.items()))
    return st.builds(Switch, st.integers(0, 5), cases, decisions, st.sampled_from([WORD, 0xF, 0x7E020000, 0]))


decisions: st.SearchStrategy[Decision] = st.recursive(answers, switches, max_leaves=6)
tables = st.dictionaries(st.one_of(st.integers(0, 60), st.integers(0, 600)), decisions, max_size=200)


@given(tables, st.data())
def test_a_program_decides_as_its_table(calls: dict[int, Decision], data: st.DataObject) -> None:
    program = load(assemble(Table(MACHINE, calls, UNKNOWN, FOREIGN)))
    numbers = {0, 1, 599, 0x40000000, WORD, *calls, *(n + 1 for n in calls), *(max(n - 1, 0) for n in calls)}
    for number in numbers:
        given_arguments = data.draw(arguments) if isinstance(calls.get(number), Switch) else (0,) * 6
        expected = decide(calls.get(number, UNKNOWN), given_arguments)
        assert run(program, Call(MACHINE, number, given_arguments)).value == expected.value
        assert run(program, Call(OTHER, number, given_arguments)).value == FOREIGN.value


def test_parts_that_are_too_far_away_are_reached() -> None:
    # Each is an island of its own, so neither the tree nor what it leads to fits into the reach of a jump.
    calls: dict[int, Decision] = {
        2 * n: Switch(n % 6, ((n, Answer(n)), (n + 1, ALLOWED)), Answer(1000 + n)) for n in range(450)
    }
    program = load(assemble(Table(MACHINE, calls, UNKNOWN, FOREIGN)))
    assert len(program) > 2000
    for number, decision in calls.items():
        for value in (number // 2, number // 2 + 1, 3000, (1 << 40) + number // 2):
            outcome = run(program, Call(MACHINE, number, (value,) * 6))
            assert outcome.value == decide(decision, (value,) * 6).value
            assert outcome.steps < 40
        assert run(program, Call(MACHINE, number + 1)).value == UNKNOWN.value
        assert run(program, Call(OTHER, number)).value == FOREIGN.value


def test_a_program_that_the_kernel_would_refuse_is_not_made() -> None:
    calls: dict[int, Decision] = {n: Switch(0, ((n, Answer(n)),), ALLOWED) for n in range(1100)}
    with pytest.raises(ValueError, match="too long"):
        assemble(Table(MACHINE, calls, UNKNOWN, FOREIGN))


def test_nothing_is_decided_by_the_upper_half_of_an_argument() -> None:
    decision = Switch(0, ((5, FOREIGN),), ALLOWED)
    program = load(assemble(Table(MACHINE, {1: decision}, UNKNOWN, FOREIGN)))
    for argument in (5, (1 << 32) + 5, (WORD << 32) + 5):
        assert run(program, Call(MACHINE, 1, (argument,) * 6)).value == FOREIGN.value
        assert decide(decision, (argument,) * 6) == FOREIGN


def test_equal_decisions_are_written_once_and_neighbours_found_together() -> None:
    calls: dict[int, Decision] = dict.fromkeys(range(100), ALLOWED)
    # Two comparisons, two loads and three answers.
    assert len(load(assemble(Table(MACHINE, calls, UNKNOWN, FOREIGN)))) == 7
