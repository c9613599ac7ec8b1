"""Seeded damage of every kind to the logs of real brokers: `BROKERLESS_HUNT` cases from `BROKERLESS_HUNT_FROM` on.

By default these are 200 new cases each time; the head of the run says which ones. `make hunt` takes 20,000 from 0 on.
"""

import os

import pytest

from support.hunt import Failed, hunt

pytestmark = pytest.mark.slow
CASES = int(os.environ.get("BROKERLESS_HUNT", "200"))
CHUNK = 20
# What longer hunts have found.
FOUND = [
    *(641, 2821, 5915, 7030, 7055, 7595, 7915, 13489, 16577, 30163, 30640, 31497),
    *(670815076, 770000232, 770002468, 780003166, 780004571, 790000456, 923367318, 80000954, 80001180, 401095999),
    *(700950085, 128873818, 705681571),
]


@pytest.fixture(scope="module")
def originals():
    return {}


@pytest.mark.parametrize("chunk", range(-(-CASES // CHUNK)))
def test_no_damage_loses_rows_without_a_word(golden, tmp_path, originals, chunk):
    first = int(os.environ["BROKERLESS_HUNT_FROM"])
    failed = []
    for seed in range(first + chunk * CHUNK, first + min((chunk + 1) * CHUNK, CASES)):
        try:
            hunt(seed, golden, tmp_path, originals)
        except Failed as error:
            failed.append(str(error))
    assert not failed, f"{len(failed)} of {CHUNK}:\n\n" + "\n\n".join(failed[:10])


def test_seeds_that_once_failed_stay_mended(golden, tmp_path, originals):
    for seed in FOUND:
        hunt(seed, golden, tmp_path, originals)
