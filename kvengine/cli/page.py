"""Pages for people: facts and tables as values, aligned for pipes, with rich on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

from attrs import frozen

from kvengine.cli.terminal import out, plain, wants_colour

__all__ = ["Facts", "Grid", "Section", "print_page", "text_of"]


@frozen
class Facts:
    """Names with what is to be said of each."""

    rows: tuple[tuple[str, str], ...]


@frozen
class Grid:
    """A titled table; columns named in ``words`` are text, all others numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[str] = frozenset()


Section = Facts | Grid


def print_page(page: Sequence[Section], stream: IO[str]) -> None:
    """Print a page as the stream likes it."""
    if stream.isatty() and wants_colour(stream):
        _rich(page, stream)
    else:
        out(text_of(page), stream)


def text_of(page: Sequence[Section]) -> str:
    """A page in plain text, columns aligned."""
    parts = (_facts(one) if isinstance(one, Facts) else _grid(one) for one in page)
    return "\n".join("".join(f"{line.rstrip()}\n" for line in lines) for lines in parts)


def _facts(facts: Facts) -> Iterator[str]:
    width = max((len(name) for name, _ in facts.rows), default=0)
    for name, value in facts.rows:
        yield f"{name:<{width}}  {plain(value)}"


def _grid(grid: Grid) -> Iterator[str]:
    lines = [grid.header, *grid.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield grid.title
    for line in lines:
        cells = zip(line, widths, grid.header, strict=True)
        yield "  " + "  ".join(
            f"{cell:<{width}}" if name in grid.words else f"{cell:>{width}}"
            for cell, width, name in cells
        )


def _rich(page: Sequence[Section], stream: IO[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for one in page:
        console.print()
        if isinstance(one, Facts):
            table = Table.grid(padding=(0, 2))
            table.add_column(style="bold cyan")
            table.add_column(overflow="fold")
        else:
            console.print(Text(one.title, style="bold"))
            table = Table(box=box.ROUNDED)
            for name in one.header:
                table.add_column(name, justify="left" if name in one.words else "right")
        rows: Sequence[tuple[str, ...]] = one.rows
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        console.print(table)
