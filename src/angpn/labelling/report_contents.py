"""What the report shows about a result."""

from pathlib import Path

from angpn.inspection.model_report import model_facts, model_report, version_facts
from angpn.inspection.report import LabelReport
from angpn.inspection.table_cells import table_cells
from angpn.labelling.job import LabellingResult
from angpn.labelling.reading_facts import reading_facts


def report_contents(result: LabellingResult) -> LabelReport:
    """Return the content of the page about a result."""
    task = result.task
    return model_report(
        result.model,
        result.labelled,
        title=Path(task.options.input).name,
        ids=task.rows.ids,
        estimate=result.estimate,
        suggested=[found.row for found in result.suggestions],
        unreliable=result.unreliable,
        facts=_facts(result),
        made_by="command",
        random_state=task.options.seed,
        texts=task.rows.content if task.rows.kind == "text" else None,
        thumbnails=task.rows.thumbnails,
        cells=table_cells(task.rows.content) if task.rows.kind == "table" else None,
    )


def _facts(result: LabellingResult) -> list[tuple[str, str]]:
    task, model, skipped = result.task, result.model, result.skipped
    return [
        ("input", str(task.options.input)),
        ("kind", task.rows.kind),
        ("rows", f"{len(task.y):,}"),
        *([("images skipped", f"{len(skipped)}: {', '.join(list(skipped)[:5])}")] if skipped else []),
        ("features", f"{model.n_features_in_:,}"),
        *reading_facts(task.rows, result.encoder, result.empty).pairs(),
        *model_facts(model),
        ("seconds", f"{result.seconds:.1f}"),
        ("seed", str(task.options.seed)),
        *version_facts(),
    ]
