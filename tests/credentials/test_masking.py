"""No value in any text, in no form, wherever a text is cut."""

from __future__ import annotations

import base64
import io
import json
import threading
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.credentials.forms import MIN_LENGTH
from supervisord_mcp.credentials.masking import MASK, MaskedStream, MaskedText, Masker

TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----"


def masker(*values: str) -> Masker:
    found = Masker()
    for number, value in enumerate(values):
        found.learn(value, f"vault:{number}")
    return found


class TestTexts:
    """Whole texts."""

    def test_without_values_everything_stays_the_same_object(self) -> None:
        text, data, tree = "some text", b"some bytes", {"a": ["b"]}
        assert Masker().mask(text) is text
        assert Masker().mask_bytes(data) is data
        assert Masker().mask_data(tree) is tree
        assert Masker().names(text) == frozenset()
        assert masker(TOKEN).mask(text) is text
        assert masker(TOKEN).mask_bytes(data) is data

    def test_a_value_is_replaced_wherever_it_is(self) -> None:
        assert masker(TOKEN).mask(f"{TOKEN} and {TOKEN}") == f"{MASK} and {MASK}"
        assert masker(TOKEN).mask_bytes(b"a" + TOKEN.encode()) == b"a***"

    @pytest.mark.parametrize(
        "form",
        [
            quote('pä"ss/w\\ord', safe=""),
            quote('pä"ss/w\\ord', safe="").lower(),
            json.dumps('pä"ss/w\\ord')[1:-1],
            json.dumps('pä"ss/w\\ord', ensure_ascii=False)[1:-1],
            base64.b64encode('user:pä"ss/w\\ord'.encode()).decode(),
        ],
    )
    def test_its_other_forms(self, form: str) -> None:
        known = masker('pä"ss/w\\ord')
        assert MASK in known.mask(f"x {form} y")
        assert known.names(form) == {"vault:0"}

    def test_texts_that_no_encoding_has(self) -> None:
        assert masker(TOKEN).mask(f"\udcff {TOKEN} ü") == f"\udcff {MASK} ü"

    def test_plain_json_values(self) -> None:
        data = {"a": [f"x{TOKEN}", 1, None, True], TOKEN: (TOKEN,), "n": {"deep": TOKEN}}
        assert masker(TOKEN).mask_data(data) == {
            "a": [f"x{MASK}", 1, None, True],
            MASK: [MASK],
            "n": {"deep": MASK},
        }

    def test_an_ordinary_word_is_masked_in_texts_and_left_in_names(self) -> None:
        known = masker("servers", "RUNNING", TOKEN)
        data = {"servers": [{"state": "RUNNING", "error": "no servers", "word": "TOKEN=servers", "key": f"a-{TOKEN}"}]}
        assert known.mask_data(data) == {
            "servers": [{"state": "RUNNING", "error": f"no {MASK}", "word": f"TOKEN={MASK}", "key": f"a-{MASK}"}]
        }
        assert known.mask("servers") == MASK
        assert (known.names_telling("servers"), known.names_of("servers ")) == (frozenset(), known.names("servers"))
        assert known.names_telling(f"x{TOKEN}") == known.names(TOKEN)
        known.forget(TOKEN)
        assert known.mask_data({"servers": f"a-{TOKEN}"}) == {"servers": f"a-{TOKEN}"}
        assert known.names_telling(TOKEN) == frozenset()
        known.learn(TOKEN, "vault:again")
        known.forget("RUNNING")
        known.forget("servers")
        assert known.names_telling(TOKEN) == {"vault:again"}

    def test_a_text_that_was_cut_may_end_in_a_part_of_a_value(self) -> None:
        known = masker(TOKEN)
        assert known.mask(f"x {TOKEN[:20]}", cut=True) == f"x {MASK}"
        assert known.mask(f"x {TOKEN[:20]}") == f"x {TOKEN[:20]}"
        assert known.mask("x ghp_0", cut=True) == "x ghp_0"
        assert known.mask("x ghp_01", cut=True) == f"x {MASK}"

    def test_what_overlaps_is_masked_as_a_whole(self) -> None:
        assert masker("abcdefgh", "efghijkl").mask("-abcdefghijkl-") == f"-{MASK}-"


class TestLearning:
    """What is known, and since when."""

    def test_short_values_are_not_learnt_and_that_is_said(self) -> None:
        known = Masker()
        assert not known.learn("a", "vault:a")
        assert not known.learn("x" * (MIN_LENGTH - 1), "vault:x")
        assert known.mask("a banana, xxxxx") == "a banana, xxxxx"
        assert known.learn("x" * MIN_LENGTH, "vault:x")
        assert known.mask("a xxxxxx") == f"a {MASK}"

    def test_the_same_value_may_have_several_names(self) -> None:
        known = Masker()
        assert all(known.learn(TOKEN, name) for name in ("vault:a", "env:B", "vault:a"))
        assert known.names(f"x{TOKEN}") == {"vault:a", "env:B"}

    def test_what_is_forgotten_is_shown_again(self) -> None:
        known = masker(TOKEN, "another-value")
        known.forget(TOKEN)
        known.forget("never known")
        assert known.mask(f"{TOKEN} another-value") == f"{TOKEN} {MASK}"
        known.clear()
        assert known.mask("another-value") == "another-value"

    def test_what_is_learnt_later_counts_from_then_on(self) -> None:
        known = masker(TOKEN)
        stream = MaskedStream(known)
        assert stream.feed(b"one-more-value\n") == b"one-more-value\n"
        known.learn("one-more-value", "vault:m")
        assert stream.feed(b"one-more-value\n") == b"***\n"

    def test_threads_may_teach_it(self) -> None:
        known = Masker()
        values = [f"value-number-{number}-of-many" for number in range(100)]
        threads = [
            threading.Thread(target=lambda part=values[n::4]: [known.learn(v, "vault:v") for v in part])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for value in values:
            known.mask(value)
        for thread in threads:
            thread.join()
        assert known.mask(" ".join(values)) == " ".join([MASK] * 100)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut bytes at the given places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


def streamed(known: Masker, parts: list[bytes]) -> bytes:
    stream = MaskedStream(known)
    return b"".join([*map(stream.feed, parts), stream.finish()])


values = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=MIN_LENGTH, max_size=20)
    .map(str.strip)
    .filter(lambda text: len(text.encode()) >= MIN_LENGTH and "*" not in text),
    min_size=1,
    max_size=3,
)
FORMS = (
    lambda value: value.encode(),
    lambda value: quote(value, safe="").encode(),
    lambda value: json.dumps(value)[1:-1].encode(),
    lambda value: base64.b64encode(value.encode()).rstrip(b"="),
)


class TestStreams:
    """Bytes that come in pieces."""

    def test_a_value_that_is_split_over_two_reads(self) -> None:
        text = f"see {TOKEN}!".encode()
        for at in range(len(text)):
            assert streamed(masker(TOKEN), [text[:at], text[at:]]) == b"see ***!"

    def test_every_byte_alone(self) -> None:
        text = f"see {TOKEN}{TOKEN} ghp_0 end".encode()
        assert streamed(masker(TOKEN), [bytes([byte]) for byte in text]) == b"see ****** ghp_0 end"

    def test_only_what_may_be_a_value_waits(self) -> None:
        stream = MaskedStream(masker(TOKEN))
        assert stream.feed(b"a line\nand ghp") == b"a line\nand "
        assert stream.feed(b"erkin\n") == b"ghperkin\n"
        assert stream.feed(b"ghp_01") == b""
        assert stream.finish() == b"***"
        assert stream.finish() == b""

    def test_a_value_of_several_lines(self) -> None:
        text = f"key:\n{KEY}\nend\n".encode()
        for at in range(len(text)):
            assert streamed(masker(KEY), [text[:at], text[at:]]) == b"key:\n***\nend\n"
        stream = MaskedStream(masker(KEY))
        assert stream.feed(KEY.encode()[:40]) == b""

    def test_overlapping_values_and_a_cut_between(self) -> None:
        known = masker("abcdefgh", "efghijkl", "ijklmnop")
        text = b"-abcdefghijklmnop-"
        for first in range(len(text)):
            for second in range(first, len(text)):
                assert streamed(known, [text[:first], text[first:second], text[second:]]) == b"-***-"

    def test_a_value_that_goes_on_in_itself_holds_nothing_back_for_long(self) -> None:
        known = masker("aaaaaaaa")
        stream = MaskedStream(known)
        out = b"".join(stream.feed(b"a" * 100) for _ in range(50))
        assert out == b"***"
        assert len(stream._held) < 8

    @given(values, st.data())
    def test_in_pieces_as_in_one(self, wanted: list[str], data: st.DataObject) -> None:
        known = masker(*wanted)
        written = st.builds(lambda form, value: form(value), st.sampled_from(FORMS), st.sampled_from(wanted))
        parts = st.one_of(written, written.map(lambda form: form[: len(form) // 2]), st.binary(max_size=5))
        text = b"".join(data.draw(st.lists(parts, max_size=10)))
        cuts = data.draw(st.lists(st.integers(0, 400), max_size=12))
        masked = streamed(known, pieces(text, cuts))
        assert masked == known.mask_bytes(text, cut=True)
        for value in wanted:
            assert not any(form(value) in masked for form in FORMS)


class TestTextStreams:
    """What stands in the place of stderr."""

    def test_everything_written_is_masked(self) -> None:
        under = io.StringIO()
        stream = MaskedText(under, masker(TOKEN))
        assert stream.write(f"a {TOKEN}\n") == len(TOKEN) + 3
        stream.writelines([TOKEN[:10], TOKEN[10:]])
        print(TOKEN, file=stream)
        stream.flush()
        assert under.getvalue() == f"a {MASK}\n{MASK}{MASK}\n"
        assert not stream.isatty()
