"""Rows whose label means little, in words: how many there are, why, and what to do."""

from collections.abc import Mapping

REASONS: Mapping[str, tuple[str, str]] = {
    "unreached": (
        "reached by no label",
        "no links of the graph lead from them to a labelled row, so their labels are guesses; label some of them",
    ),
    "empty": (
        "empty",
        "they have no known word, no value, or zeros alone, so they get the most frequent class of the given labels "
        "and the source empty; leave them out, or fill them",
    ),
    "conflicting": (
        "in conflict",
        "they equal labelled rows of different classes; correct a label, or add a feature that tells them apart",
    ),
}


def describe_unreliable(counts: Mapping[str, int]) -> dict[str, str]:
    """Return a sentence for each reason that some rows have.

    Args:
        counts: How many rows have each reason, by the names of :class:`angpn.UnreliableRows`.

    Returns:
        The sentences by reason.
    """
    return {
        reason: f"{counts[reason]:,} {'row is' if counts[reason] == 1 else 'rows are'} {what}: {why}"
        for reason, (what, why) in REASONS.items()
        if counts[reason]
    }
