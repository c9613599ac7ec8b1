"""Division of many pieces of work into shares of about equal size, in which neighbors stay together."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")


def in_shares(pieces: Iterable[_T], size: Callable[[_T], int], share: int) -> list[tuple[_T, ...]]:
    """Divide pieces into runs of neighbors, each of about `share` bytes. A larger piece is a run by itself.

    >>> in_shares([3, 4, 9, 1, 1], size=lambda number: number, share=8)
    [(3, 4), (9,), (1, 1)]
    """
    shares: list[list[_T]] = []
    room = 0
    for piece in pieces:
        if not shares or size(piece) > room:
            shares.append([])
            room = share
        shares[-1].append(piece)
        room -= size(piece)
    return [tuple(run) for run in shares]
