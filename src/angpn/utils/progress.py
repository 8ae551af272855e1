"""Progress bars on standard error. rich is imported only when a bar is shown."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def count_bar(what: str, total: int, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; what it yields is called with how many more are done."""
    if not enabled:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description:>10}"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
