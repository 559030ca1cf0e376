"""A text taken out of another one, that still knows where each of its characters was written."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from attrs import field, frozen

__all__ = ["Context", "Hole", "Strand"]

Context = tuple[str, ...]
"""The layers of quoting around a character, the outermost first: ``("yaml'", 'shell"')``."""


@frozen
class Hole:
    """A part of a strand whose text is not known: ``$NAME``, ``$(command)``, ``<bytes>``.

    ``start:end`` are characters of the strand, which holds what was written there.
    """

    start: int
    end: int
    name: str


@frozen
class Strand:
    """Decoded text: character ``i`` was written at ``starts[i]:ends[i]`` of the file.

    ``contexts[i]`` says through which layers of quoting it came; a text written back there has
    to be quoted the same way. ``holes`` are in order and do not overlap.
    """

    text: str
    starts: array[int] = field(repr=False)
    ends: array[int] = field(repr=False)
    contexts: Sequence[Context] = field(repr=False)
    holes: tuple[Hole, ...] = ()

    @classmethod
    def of(cls, body: str, start: int = 0, end: int | None = None) -> Strand:
        """A piece of the file itself."""
        end = len(body) if end is None else end
        places = array("q", range(start, end))
        return cls(
            body[start:end], places, array("q", range(start + 1, end + 1)), ((),) * len(places)
        )

    @classmethod
    def written(cls, text: str, source: Strand, start: int, end: int, *, hole: str = "") -> Strand:
        """A text that as a whole stands for ``source[start:end]``; ``hole`` names the unknown."""
        first, last = source.range(start, end)
        context = source.contexts[start] if start < len(source.contexts) else ()
        count = len(text)
        return cls(
            text,
            array("q", [first]) * count,
            array("q", [last]) * count,
            ((*context, "fixed"),) * count,
            (Hole(0, count, hole),) if hole else (),
        )

    @classmethod
    def joined(cls, strands: Iterable[Strand]) -> Strand:
        """The strands one after another."""
        parts = list(strands)
        if len(parts) == 1:
            return parts[0]
        starts, ends = array("q"), array("q")
        contexts: list[Context] = []
        holes: list[Hole] = []
        for part in parts:
            holes += (Hole(h.start + len(starts), h.end + len(starts), h.name) for h in part.holes)
            starts += part.starts
            ends += part.ends
            contexts += part.contexts
        return cls("".join(part.text for part in parts), starts, ends, contexts, tuple(holes))

    def __len__(self) -> int:
        return len(self.text)

    def cut(self, start: int, end: int | None = None) -> Strand:
        """The characters ``start:end``; a hole that is cut through stays a hole."""
        end = len(self.text) if end is None else end
        first = bisect_right(self.holes, start, key=lambda hole: hole.end)
        last = bisect_left(self.holes, end, key=lambda hole: hole.start)
        holes = tuple(
            Hole(max(hole.start, start) - start, min(hole.end, end) - start, hole.name)
            for hole in self.holes[first:last]
        )
        return Strand(
            self.text[start:end],
            self.starts[start:end],
            self.ends[start:end],
            self.contexts[start:end],
            holes,
        )

    def first_hole(self, start: int, end: int) -> Hole | None:
        """The first hole that lies within the characters ``start:end``."""
        at = bisect_left(self.holes, start, key=lambda hole: hole.start)
        if at < len(self.holes) and self.holes[at].end <= end:
            return self.holes[at]
        return None

    def blanked(self) -> str:
        """The text with a harmless ``$`` for each character that is not known."""
        parts: list[str] = []
        done = 0
        for hole in self.holes:
            parts += [self.text[done : hole.start], "$" * (hole.end - hole.start)]
            done = hole.end
        return "".join([*parts, self.text[done:]])

    def within(self, layer: str) -> Strand:
        """The same text, seen through one more layer of quoting."""
        known: dict[Context, Context] = {}
        for one in {*self.contexts}:
            known[one] = one if layer == "var" and one[-1:] == ("var",) else (*one, layer)
        contexts = [known[one] for one in self.contexts]
        return Strand(self.text, self.starts, self.ends, contexts, self.holes)

    def range(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters ``start:end`` stand in the file."""
        count = len(self.starts)
        if not count:
            return 0, 0
        if start >= count:
            return self.ends[-1], self.ends[-1]
        first = self.starts[start]
        last = self.ends[min(max(end, start + 1), count) - 1]
        return first, max(last, first)

    def stripped(self) -> Strand:
        """Without white space at both ends."""
        start = len(self.text) - len(self.text.lstrip())
        end = len(self.text.rstrip())
        return self.cut(start, max(start, end))
