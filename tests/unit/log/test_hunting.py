"""Seeded damage of every kind to the logs of real brokers: `BROKERLESS_HUNT=20000` makes it as many cases."""

import os

import pytest

from hunting import Failed, hunt

pytestmark = pytest.mark.slow
CASES = int(os.environ.get("BROKERLESS_HUNT", "2000"))
CHUNK = 100
# What longer hunts have found.
FOUND = [641, 2821, 5915, 7030, 7055, 7595, 7915, 13489, 16577, 30163, 30640, 31497]


@pytest.fixture(scope="module")
def originals():
    return {}


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_no_damage_loses_rows_without_a_word(golden, tmp_path, originals, first):
    failed = []
    for seed in range(first, min(first + CHUNK, CASES)):
        try:
            hunt(seed, golden, tmp_path, originals)
        except Failed as error:
            failed.append(str(error))
    assert not failed, f"{len(failed)} of {CHUNK}:\n\n" + "\n\n".join(failed[:10])


def test_what_was_found_stays_mended(golden, tmp_path, originals):
    for seed in FOUND:
        hunt(seed, golden, tmp_path, originals)
