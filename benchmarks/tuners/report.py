"""Tables, for a terminal and between the marks of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table


class Sheet(NamedTuple):
    """A table that is printed."""

    title: str
    header: list[str]
    rows: list[list[str]]


def drawn(sheet: Sheet) -> Table:
    """Return the table for a terminal, without its title."""
    table = Table(*sheet.header)
    for row in sheet.rows:
        table.add_row(*row)
    return table


def markdown(sheet: Sheet) -> str:
    """Return the table as Markdown, its title in italics above it."""

    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join(map(str, cells)) + " |"

    return "\n".join([f"*{sheet.title}*", "", line(sheet.header), line(["---"] * len(sheet.header)),
                      *map(line, sheet.rows)])  # fmt: skip


def marks_of(study: str) -> tuple[str, str]:
    """Return the marks of a page between which the tables of a study are."""
    return f"<!-- results {study} -->", f"<!-- end of results {study} -->"


def inserted(page: str, text: str, marks: tuple[str, str]) -> str:
    """Return the page with the text in the place of what stands between its marks.

    Parameters
    ----------
    page, text
        Page, and text that is inserted.
    marks
        First and last mark.

    Raises
    ------
    ValueError
        If the page does not have the two marks, each once, in their order.
    """
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not end or any(page.count(mark) != 1 for mark in marks):
        raise ValueError(f"page: got one without the marks; allowed: one with {marks[0]} and then {marks[1]}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def show(sheets: Sequence[Sheet], page: Path | None, marks: tuple[str, str]) -> None:
    """Print the tables for a terminal, or as Markdown if the page is "-"; or write them between marks of the page."""
    if page is None:
        out = Console(highlight=False)
        for sheet in sheets:
            out.print(sheet.title, drawn(sheet), sep="\n")
        return
    text = "\n\n".join(map(markdown, sheets))
    if page == Path("-"):
        print(text, end="\n\n")
    else:
        page.write_text(inserted(page.read_text(), text, marks))
