import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import settings

# They ran with the code of their time, whose modules are no longer there.
collect_ignore_glob = ["estimators/saved_by_*/make_*.py"]

# In CI the examples are the same every time: a red run means the code changed.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_make_parametrize_id(config, val, argname):
    """Name bytes by their argument: those of a packed file hold the time, and differ between the two test processes."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """A folder for cached features, so that tests neither use the user's nor change it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANGPN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def real_data():
    """A reader of the sparse sets in the folder that ANGPN_DATA names: (features, labels), rows at unit length."""
    if "ANGPN_DATA" not in os.environ:
        pytest.skip("ANGPN_DATA does not name a folder with the paper's data sets")

    def read(name: str) -> tuple[torch.Tensor, torch.Tensor]:
        with np.load(Path(os.environ["ANGPN_DATA"]) / f"{name}.npz") as file:
            matrix = scipy.sparse.csr_array((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
            labels = torch.as_tensor(file["y"], dtype=torch.int64)
        return torch.nn.functional.normalize(torch.as_tensor(matrix.toarray(), dtype=torch.float32)), labels

    return read


# Without these Chromium asks hosts of its own for updates.
BROWSER_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium without a screen."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser; it is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("pages are tested in Chromium, which is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(BROWSER_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_in_browser(browser):
    """Opens the page of a report; afterwards no error, no dialog, no request but the file's own may have been seen."""
    contexts, errors, requests = [], [], []

    def dialog(shown):
        errors.append(f"dialog: {shown.message}")
        shown.dismiss()

    def open_page(path, width=1200, height=900, **settings):
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", dialog)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function("window.angpnReport")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert sum(url.startswith("file:") for url in requests) == len(contexts)
