"""Table writer: rows of text for a terminal, or as Markdown. HTML tables are made by the templates of pages."""

from collections.abc import Collection, Iterable, Sequence

from rich import box
from rich.table import Table


def grid(
    *columns: str, title: str = "", left: int | None = None, right: Collection[str] = (), fold: bool = False
) -> Table:
    """Return an empty table for a terminal.

    Columns are aligned to the left, but those named in `right` and, where `left` is given, all after the first `left`.
    With `fold` long words are broken in place of being cut.
    """
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        to_right = column in right or (left is not None and place >= left)
        table.add_column(column, justify="right" if to_right else "left", overflow="fold" if fold else "ellipsis")
    return table


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown, without a newline at its end."""
    head = "|" + "".join(f" {column} |" if column else " |" for column in columns)
    return "\n".join([head, "|" + "---|" * len(columns), *(f"| {' | '.join(cells)} |" for cells in rows)])
