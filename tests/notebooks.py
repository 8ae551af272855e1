"""Run cells in a real kernel."""

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest


def run_notebook(notebook, folder=None):
    """Run the cells of a notebook in this interpreter's kernel, in a folder, and return them with their outputs."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks; it is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is the kernel of notebooks; it is not installed")
    resources = {} if folder is None else {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
    # In a thread of its own, since a browser of other tests has an event loop in this one.
    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(1) as thread:  # warnings of the client's own
        thread.submit(lambda: asyncio.run(client.async_execute())).result()
    return notebook.cells


def run_cells(*sources):
    """Run some cells, and return them with their outputs."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat describes notebooks; it is not installed")
    return run_notebook(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources]))
