"""Console of the command and of progress bars, on which text of others is text."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from scalable_bandits.checks import showable


class PlainConsole(Console):
    """Console that shows names, errors and commands as they are: no markup, no control characters.

    Parameters
    ----------
    stderr
        Whether it writes to standard error instead of standard output.
    """

    def __init__(self, stderr: bool = False):
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is shown, in which only rich's own moves the cursor."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(showable(segment.text, self.encoding), segment.style)
