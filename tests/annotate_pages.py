"""What tests of the page of angpn annotate share."""

from axe_playwright_python.sync_playwright import Axe


def until(page, condition, seconds=60):
    """Wait until a JavaScript expression is true; the page's policy forbids playwright's own way to wait for one."""
    for _ in range(seconds * 25):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(40)
    raise AssertionError(f"never true: {condition}")


def saved(page):
    """Wait until every action was answered."""
    until(page, "Object.keys(localStorage).every((key) => !key.startsWith('angpn-unsent'))")


def serious_faults(page):
    """Return what axe-core finds wrong with what is on screen: the rule, the element, and why."""
    found = Axe().run(page).response["violations"]
    serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
    return [(fault["id"], node["html"], node["failureSummary"]) for fault in serious for node in fault["nodes"]]


def watch(page, errors, requests):
    """Collect errors, dialogs and the addresses of requests."""
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda shown: (errors.append(f"dialog: {shown.message}"), shown.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
