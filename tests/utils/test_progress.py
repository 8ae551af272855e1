"""Progress bars in a terminal, and in notebooks with and without ipywidgets."""

import pytest

from angpn.utils import progress
from angpn.utils.progress import RichBar, TextBar, count_bar, progress_bar


class Clock:
    """A clock that tests move."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture
def stderr(capsys):
    """What was written to standard error since the last look."""
    return lambda: capsys.readouterr().err


def test_a_bar_of_text_is_one_line_that_is_written_anew(clock, stderr):
    bar = TextBar("rounds", 4)
    bar.start()
    clock.now += 30
    bar.show(1, 4, "a long status")
    clock.now += 30
    bar.show(2, 4, "short")
    bar.stop()
    written = stderr()
    assert written.endswith("\n")
    lines = written.removeprefix("\r").removesuffix("\n").split("\r")
    assert {len(line) for line in lines} == {100}  # each covers what was there before
    assert [line.rstrip() for line in lines] == [
        f"    rounds 0/4 {30 * '░'} -:--",
        f"    rounds 1/4 {8 * '█'}{22 * '░'} 1:30 a long status",
        *2 * [f"    rounds 2/4 {15 * '█'}{15 * '░'} 1:00 short"],
    ]


def test_it_is_written_a_few_times_a_second_at_most_and_at_the_end(clock, stderr):
    bar = TextBar("rows", 1000)
    bar.start()
    for done in range(1, 1001):
        clock.now += 0.001
        bar.show(done, 1000)
    bar.stop()
    lines = stderr().split("\r")[1:]
    assert len(lines) <= 7
    assert lines[-1].startswith("      rows 1000/1000 ")


def test_nothing_to_count_is_a_full_bar(clock, stderr):
    with count_bar("rows", 0, enabled=True):
        pass
    bar = TextBar("rows", 0)
    bar.start()
    assert stderr().rstrip(" ").endswith(f"rows 0/0 {30 * '█'} 0:00")


@pytest.mark.parametrize(
    ("in_notebook", "with_widgets", "kind"),
    [(True, False, TextBar), (True, True, RichBar), (False, False, RichBar), (False, True, RichBar)],
)
def test_a_notebook_without_ipywidgets_has_a_bar_of_text(monkeypatch, in_notebook, with_widgets, kind):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: in_notebook)
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if with_widgets else None)
    assert type(progress_bar("rows", 3)) is kind


def test_counts_add_up_and_an_error_ends_the_bar(monkeypatch, stderr):
    monkeypatch.setattr(progress, "progress_bar", TextBar)

    def fail():
        with count_bar("rows", 10, enabled=True) as advance:
            advance(3)
            advance(4)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    written = stderr()
    assert "rows 7/10" in written
    assert written.endswith("\n")


def test_no_bar_writes_nothing(stderr):
    with count_bar("rows", 10, enabled=False) as advance:
        advance(10)
    assert stderr() == ""


def test_a_terminal_or_a_file_has_the_last_state_by_rich(stderr):
    with count_bar("rows", 10, enabled=True) as advance:
        advance(10)
    assert "rows 10/10" in stderr()


def test_a_kernel_without_ipywidgets_shows_the_bar_and_no_advice():
    from notebooks import run_cells

    outputs = run_cells(
        "import sys; sys.modules['ipywidgets'] = None\nfrom angpn.utils.progress import count_bar",
        "with count_bar('rows', 5, enabled=True) as advance:\n    for _ in range(5): advance(1)",
    )[-1].outputs
    assert {(output.output_type, output.name) for output in outputs} == {("stream", "stderr")}
    text = "".join(output.text for output in outputs)
    assert f"rows 0/5 {30 * '░'} -:--" in text
    assert f"rows 5/5 {30 * '█'} 0:00" in text
    assert "ipywidgets" not in text
