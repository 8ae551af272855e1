"""Write the results of a project that nobody needs to have open, also in a process of its own.

A server writes them so: the fit and its memory are not the server's, and labelling goes on meanwhile.
"""

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

from angpn.annotation.project import load_project
from angpn.annotation.results import Results, write_results
from angpn.annotation.state import AnnotationState

_NICENESS = 10


def export_results(folder: Path, encoder: str = "auto") -> Results:
    """Write the results of a project, without a server.

    Args:
        folder: The output folder.
        encoder: The encoder of its rows.

    Raises:
        ValueError: If the project, its input or its log cannot be used.
        OSError: If something cannot be read or written.
    """
    saved = load_project(folder, encoder)
    state = AnnotationState(len(saved.rows.ids), saved.entries)
    return write_results(state, saved.options, saved.rows, folder)


def export_apart(folder: Path, encoder: str = "auto") -> Results:
    """Do the same in a process of its own.

    Raises:
        ValueError, OSError: As :func:`export_results` does.
        RuntimeError: If the process ended without an answer.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "angpn.annotation.export", str(folder), encoder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is for the server
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"the process that writes the results must end well, got code {done.returncode}; free some memory, then "
            f"write them again: all labels are in the log in {folder}"
        )
    answer = pickle.loads(done.stdout)
    if isinstance(answer, Exception):
        raise answer
    return answer


def main() -> None:
    """Write the results of the folder and by the encoder in the arguments, and what came of it to standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not come into the answer
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    warnings.simplefilter("ignore")
    answer: Results | Exception
    try:
        answer = export_results(Path(sys.argv[1]), sys.argv[2])
    except (ValueError, OSError, RuntimeError) as error:
        answer = error
    with answers:
        pickle.dump(answer, answers)


if __name__ == "__main__":
    main()
