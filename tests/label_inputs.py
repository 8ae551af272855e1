"""Words of synthetic texts, and helpers that write label files, networks and workbooks, and read predictions."""

import csv
import zipfile
from xml.sax.saxutils import escape

import numpy as np
import polars

TOPICS = {
    "billing": "invoice payment refund card charge bank account price euro subscription receipt",
    "network": "router wifi cable signal internet connection slow modem outage speed antenna",
    "parcel": "delivery box courier address late tracking shipped package street door returned",
}


def partial_labels(truth, share, seed=0):
    """Return the label for a share of each class, '' for the others."""
    generator = np.random.default_rng(seed)
    labels = np.full(len(truth), "", dtype=object)
    for name in np.unique(truth):
        rows = generator.permutation(np.flatnonzero(truth == name))
        chosen = rows[: max(4, round(share * len(rows)))]
        labels[chosen] = truth[chosen]
    return labels


def write_labels(path, ids, labels):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows((name, label) for name, label in zip(ids, labels, strict=True) if label)
    return path


def read_predictions(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def brightness(folder):
    """Write a network whose features are the colours of an image, as TorchScript."""
    import warnings

    import torch
    from torch import nn

    path = folder / "colours.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(nn.AvgPool2d(8)).save(str(path))
    return path


def write_workbook(path, sheets):
    """Write an Excel workbook of sheets by name, each a list of rows of texts, numbers or None."""
    names = list(sheets)
    types = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        parts = "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
            for n in range(1, len(names) + 1)
        )
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
            f"{parts}</Types>",
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
            f'Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(names, 1))
        archive.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{types}" xmlns:r="{relations}"><sheets>{listed}</sheets></workbook>'
        )
        links = "".join(
            f'<Relationship Id="rId{n}" Type="{relations}/worksheet" Target="worksheets/sheet{n}.xml"/>'
            for n in range(1, len(names) + 1)
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}/relationships">{links}</Relationships>'
        )
        for n, rows in enumerate(sheets.values(), 1):
            archive.writestr(
                f"xl/worksheets/sheet{n}.xml",
                f'<worksheet xmlns="{types}"><sheetData>{_sheet_rows(rows)}</sheetData></worksheet>',
            )
    return path


def _sheet_rows(rows):
    return "".join(
        f'<row r="{number}">' + "".join(_cell(f"{chr(65 + place)}{number}", value) for place, value in enumerate(row))
        + "</row>"
        for number, row in enumerate(rows, 1)
    )  # fmt: skip


def _cell(place, value):
    if value is None:
        return ""
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def goods_table(n):
    """Return a table of four classes, and these: words tell fruit from tools, price and brand what is expensive."""
    words = {"fruit": "apple pear plum ripe sweet juice", "tool": "hammer saw drill steel blade handle"}
    generator = np.random.default_rng(0)
    kind, expensive = generator.choice(list(words), n), generator.random(n) < 0.5
    bodies = [" ".join(generator.choice(words[one].split(), 5)) for one in kind]
    price = (np.where(expensive, 90, 10) + generator.normal(size=n)).round(2)
    frame = polars.DataFrame({"body": bodies, "price": price, "brand": np.where(expensive, "gold", "plain")})
    return frame, np.char.add(kind, np.where(expensive, " expensive", " cheap"))
