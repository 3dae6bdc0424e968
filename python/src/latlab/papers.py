"""Published figures of a paper beside those of runs of its studies."""

import pyarrow

DIRECTIONS = {"less": "less", "same": "the same", "more": "more"}


def published(*runs):
    """A row for each published figure, with the figure of the run that measured it, as a pyarrow table.

    Ratios are to the first column of their table; of two machines only they can be compared.
    """
    rows = {}
    for run in runs:
        paper = run.summary.get("paper")
        if paper is None:
            raise ValueError(f"{run.manifest['id']} is a run of study `{run.manifest['study']}`, which is of no paper")
        for table in paper["tables"]:
            for row in table["rows"]:
                for column, value in zip(table["columns"], row["values"]):
                    key = (table["title"], row["name"], column)
                    if key not in rows or value.get("measured") is not None:
                        rows[key] = of_value(table, row, column, value)
    names = list(next(iter(rows.values()), {}))
    return pyarrow.table({name: [row[name] for row in rows.values()] for name in names})


def of_value(table, row, column, value):
    low, high = value.get("ratio_ci95") or (None, None)
    return {
        "table": table["title"],
        "where": table["place"],
        "row": row["name"],
        "column": column,
        "published": value.get("published"),
        "published unit": row["published_unit"],
        "published ratio": value.get("published_ratio"),
        "says": DIRECTIONS.get(value.get("published_direction")),
        "measured": value.get("measured"),
        "unit": row["measured_unit"],
        "ratio": value.get("ratio"),
        "low": low,
        "high": high,
        "verdict": (value.get("verdict") or "").replace("-", " "),
        "reason": value.get("reason", ""),
    }
