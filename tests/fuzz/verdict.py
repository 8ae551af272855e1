"""What passes: a valid result, or a refusal in angpn's own words. Anything else is a fault."""

import linecache
import re
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

import angpn
from angpn.cli import app
from fuzz.checks import Fault

ALLOWED = (ValueError, TypeError, OSError, MemoryError, ImportError)
_OURS = Path(angpn.__file__).parent
_CONTRACT = ("sklearn/utils/validation.py", "sklearn/utils/multiclass.py")  # checks of the estimator contract


def accepts(call: Callable[[], object], *, names: str = "") -> bool:
    """Return whether a call of the library accepted its input; a refusal must be ours, and match ``names``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Fault:
        raise
    except Exception as error:
        check_refusal(error)
        if not re.search(names, str(error)):
            raise Fault("message", f"a refusal must name {names}, got: {error}") from error
        return False
    return True


def check_refusal(error: BaseException) -> None:
    """Check that an error was raised on purpose: its type, who raised it, and that it is one line."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append((Path(trace.tb_frame.f_code.co_filename), trace.tb_lineno))
        trace = trace.tb_next
    ours = [place for place, (path, _) in enumerate(frames) if path.is_relative_to(_OURS)]
    if not isinstance(error, ALLOWED) or not ours:
        raise error
    after = frames[ours[-1] + 1 :]
    if after and after[0][0].as_posix().endswith(_CONTRACT):
        return
    if after or not linecache.getline(str(frames[-1][0]), frames[-1][1]).strip().startswith("raise"):
        raise Fault(
            "traceback", f"a library's own message reached the user: {type(error).__name__}: {error}"
        ) from error
    if not str(error) or "\n" in str(error):
        raise Fault("message", f"a refusal must be one line, got {str(error)!r}") from error


def accepts_command(*arguments: object, names: str = "") -> bool:
    """Run ``angpn`` in this process; return whether it ended well. A refusal must be one line and match ``names``."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    raised = result.exception
    if raised is not None and not isinstance(raised, SystemExit):
        raise raised
    shown = result.stdout + result.stderr
    control = sorted({character for character in shown if unicodedata.category(character) == "Cc"} - {"\n"})
    if control:
        raise Fault("message", f"control characters must not reach the terminal raw, got {control} in {shown!r}")
    if result.exit_code == 0:
        return True
    if result.exit_code == 2 and "Usage:" in result.stderr:  # typer's own words about options
        return False
    said = [line for line in result.stderr.splitlines() if line.strip()] or [""]  # after warnings and bars
    if result.exit_code != 1 or not said[-1].startswith("error: ") or "Traceback" in shown:
        raise Fault("message", f"a refusal must end with one line error: ..., got exit {result.exit_code}, {shown!r}")
    while isinstance(raised, SystemExit) or type(raised).__name__ == "Exit":
        raised = raised.__context__
    if raised is not None:
        if "\n" in str(raised):
            raised = type(raised)(" ".join(str(raised).split())).with_traceback(raised.__traceback__)
        check_refusal(raised)
    if not re.search(names, said[-1]):
        raise Fault("message", f"a refusal must name {names}, got: {said[-1]}")
    return False
