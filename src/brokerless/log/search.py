"""The criteria of records that are sought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from brokerless import _native
from brokerless.arguments import check_number

Text = str | bytes
Texts = Text | Iterable[Text]
Headers = str | Iterable[str] | Mapping[str, Texts | None]


@dataclass(frozen=True)
class Criterion:
    """A condition on one part of a record.

    Attributes:
        part: the part. "any" is the key, the value, or the name or the value of a header.
        header: the name of the header, if the part is "header".
        test: the test: the part is null, is present, has one of the texts, or matches one of the patterns.
        texts: the texts, or the patterns.
        ignores_case: whether upper and lower case are the same.
        is_whole: whether a text is the whole part, not some of it.
    """

    part: Literal["any", "key", "value", "header"]
    header: str | None = None
    test: Literal["null", "present", "texts", "patterns"] = "texts"
    texts: tuple[bytes, ...] = ()
    ignores_case: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Search:
    """The criteria of records that are sought. It can be pickled.

    Attributes:
        criteria: the conditions: a record meets all of them.
        is_inverted: whether the records are found that do not meet all conditions.
        producer_ids: the ids of the producers whose records are searched; empty: all.
    """

    criteria: tuple[Criterion, ...]
    is_inverted: bool = False
    producer_ids: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        any: Texts | None = None,  # noqa: A002 - the word of `LogDirs.find`
        key: Texts | None = None,
        value: Texts | None = None,
        headers: Headers | None = None,
        exact: bool = False,
        regex: bool = False,
        ignore_case: bool = False,
        null_value: bool = False,
        invert: bool = False,
        producer_ids: Iterable[int] = (),
    ) -> Search:
        """Return the search of these arguments: see `LogDirs.find`.

        Raises:
            ValueError: nothing is sought, or a list of texts is empty.
            TypeError: a text is neither text nor bytes.
        """
        found: list[Criterion] = []

        def add(part: Literal["any", "key", "value", "header"], texts: Texts, name: str, header: str | None) -> None:
            sought = _bytes(name, texts)
            test: Literal["texts", "patterns"] = "patterns" if regex else "texts"
            found.append(Criterion(part, header, test, sought, ignores_case=ignore_case, is_whole=exact))

        if any is not None:
            add("any", any, "any", None)
        if key is not None:
            add("key", key, "key", None)
        if value is not None:
            add("value", value, "value", None)
        for name, texts in _headers(headers):
            if texts is None:
                found.append(Criterion("header", name, "present"))
            else:
                add("header", texts, f"headers[{name!r}]", name)
        if null_value:
            found.append(Criterion("value", None, "null"))
        producers = tuple(producer_ids)
        for number in producers:
            check_number("producer_ids", number, 0)
        if not found and not producers:
            raise ValueError(
                "nothing is sought: give any, key, value, headers, null_value or producer_ids; read returns all records"
            )
        return cls(tuple(found), invert, producers)

    @property
    def whole_keys(self) -> tuple[bytes, ...]:
        """The keys of the records that are sought, if they are known; otherwise empty."""
        for criterion in () if self.is_inverted else self.criteria:
            is_plain = criterion.test == "texts" and not criterion.ignores_case
            if criterion.part == "key" and criterion.is_whole and is_plain:
                return criterion.texts
        return ()

    def compiled(self) -> _native.Search:
        """Prepare the search.

        Raises:
            ValueError: a pattern does not compile, or there are too many texts.
        """
        return _native.Search(self.criteria, is_inverted=self.is_inverted, producer_ids=self.producer_ids)


def _headers(headers: Headers | None) -> Iterable[tuple[str, Texts | None]]:
    if headers is None:
        return []
    if isinstance(headers, str):
        return [(headers, None)]
    if isinstance(headers, Mapping):
        return headers.items()
    return [(name, None) for name in headers]


def _bytes(name: str, texts: Texts) -> tuple[bytes, ...]:
    """Return texts as bytes."""
    given = [texts] if isinstance(texts, str | bytes) else list(texts)
    if not given:
        raise ValueError(f"{name} is an empty list: give at least one text")
    for text in given:
        if not isinstance(text, str | bytes):
            raise TypeError(f"{name}: {text!r} is neither text nor bytes")
    return tuple(text.encode() if isinstance(text, str) else text for text in given)
