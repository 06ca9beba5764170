"""When chunks are compressed and with what: everything that a user may say, and what is said to the rest."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import MuntinError
from muntin.features.compression.policy import CODECS, Compression
from muntin.sizes import describe_size, size_in_bytes
from tests.builders import NEVER_COMPRESSED


def after(value: Any, codec: Any = "zstd", level: Any = None) -> Compression:
    return Compression.of(value, codec, level, None, given_after=True)


def memory(value: Any) -> Compression:
    return Compression.of(None, "zstd", None, value, given_after=False)


def test_after() -> None:
    assert after("1 minute") == Compression(60_000_000, "zstd", None, None)
    assert after(timedelta(seconds=2), "lz4", 9) == Compression(2_000_000, "lz4", 9, None)
    assert after("0 seconds").after == 0
    assert after(None) == NEVER_COMPRESSED


def test_memory() -> None:
    assert memory("2 GB") == Compression(None, "zstd", None, 2 * 10**9)
    assert memory(4096).memory == 4096


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, 1),
        ("7 b", 7),
        ("512 MB", 512 * 10**6),
        (" 512mib ", 512 << 20),
        ("1.5 kB", 1500),
        ("0.5 GiB", 1 << 29),
        ("3 TB", 3 * 10**12),
        ("1 TiB", 1 << 40),
    ],
)
def test_sizes(size: str | int, expected: int) -> None:
    assert size_in_bytes(size, "memory") == expected


@pytest.mark.parametrize("size", ["", "2", "GB", "2 gigs", "two GB", "-2 GB", "2 GB 1 MB", "1,5 GB"])
def test_what_is_not_a_size(size: str) -> None:
    with pytest.raises(MuntinError) as error:
        memory(size)
    assert str(error.value) == f"memory is {size!r}, which is not a size; write one such as '512 MB' or '2 GB'."


@pytest.mark.parametrize("size", [True, 2.5, [1], b"2 GB"])
def test_what_is_not_even_like_a_size(size: Any) -> None:
    with pytest.raises(MuntinError) as error:
        memory(size)
    assert str(error.value) == f"memory must be a size such as '2 GB', or a number of bytes, got {size!r}."


@pytest.mark.parametrize("size", [0, -1, "0 GB", "0.0001 kb"])
def test_a_size_of_nothing(size: str | int) -> None:
    with pytest.raises(MuntinError, match=f"memory must be greater than zero, got {size!r}"):
        memory(size)


@pytest.mark.parametrize(
    ("codec", "hint"),
    [
        ("zst", " Did you mean 'zstd'?"),
        ("lz", " Did you mean 'lz4'?"),
        ("Snappy", " Did you mean 'snappy'?"),
        ("gzip", ""),
        (None, ""),
    ],
)
def test_an_unknown_codec_gets_a_hint(codec: Any, hint: str) -> None:
    with pytest.raises(MuntinError) as error:
        after("1 minute", codec)
    assert str(error.value) == f"codec is {codec!r}; it can be 'snappy', 'lz4' or 'zstd'.{hint}"


@pytest.mark.parametrize(("codec", "low", "high"), [("lz4", 1, 12), ("zstd", 1, 22)])
def test_levels(codec: str, low: int, high: int) -> None:
    for level in (low, high):
        after("1 minute", codec, level).make_codec().compress(b"bytes")
    for wrong in (low - 1, high + 1, -1, True, 2.0, "3"):
        message = f"level must be a whole number from {low} to {high} for {codec}, got {wrong!r}."
        with pytest.raises(MuntinError, match=re.escape(message)):
            after("1 minute", codec, wrong)


def test_snappy_has_no_levels() -> None:
    with pytest.raises(MuntinError) as error:
        after("1 minute", "snappy", 3)
    assert str(error.value) == "level=3 is given, but snappy has no levels; leave it out, or use zstd."


def test_a_negative_time() -> None:
    with pytest.raises(MuntinError) as error:
        after("-5 seconds")
    expected = "after must not be negative, got '-5 seconds'; '0 seconds' compresses at once."
    assert str(error.value) == expected
    with pytest.raises(MuntinError, match="after must not be negative"):
        after(timedelta(microseconds=-1))


@pytest.mark.parametrize("wrong", ["soon", 5, "1 month"])
def test_what_is_not_a_time(wrong: Any) -> None:
    with pytest.raises(MuntinError, match=r"^after "):
        after(wrong)


def test_both() -> None:
    with pytest.raises(MuntinError, match=r"both after= and memory=; with memory=, Muntin chooses when to compress\."):
        Compression.of("1 minute", "zstd", None, "2 GB", given_after=True)
    with pytest.raises(MuntinError, match="both after= and memory="):
        Compression.of(None, "zstd", None, "2 GB", given_after=True)


def test_neither() -> None:
    with pytest.raises(
        MuntinError, match=r"neither after= nor memory=; give when to compress, such as after='1 minute', or how"
    ):
        Compression.of(None, "zstd", None, None, given_after=False)


@given(st.sampled_from(CODECS), st.binary(max_size=300))
def test_codecs_are_lossless(codec: str, value: bytes) -> None:
    made = after(None, codec).make_codec()
    assert isinstance(made, pa.Codec)
    assert bytes(made.decompress(made.compress(value), decompressed_size=len(value))) == value


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "2 KB"),
        (25e6, "25 MB"),
        (2.04e9, "2.0 GB"),
        (3e13, "30.0 TB"),
        (207.36e12, "207.4 TB"),
        (999_700, "1 MB"),
        (1e18, "1,000.0 PB"),
    ],
)
def test_sizes_as_people_write_them(size: float, expected: str) -> None:
    assert describe_size(size) == expected
