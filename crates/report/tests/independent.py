#!/usr/bin/env python3
"""Recomputes the percentiles of summary.json from the Parquet files, knowing nothing of latlab.

usage: independent.py RUN

Reads with DuckDB or with pyarrow and NumPy, whichever is installed (both, when both are), and
compares to 1e-9 relative. Neither installed is an error: this check must not pass by not running.
"""

import json
import pathlib
import sys

TOLERANCE = 1e-9


def with_duckdb(files, fractions):
    import duckdb

    names = [str(file) for file in files]
    columns = ["count(latency_ns)", "min(latency_ns)", "max(latency_ns)", "stddev_samp(latency_ns)"]
    columns += [f"quantile_cont(latency_ns, {p!r}::DOUBLE)" for p in fractions]
    query = f"select {', '.join(columns)} from read_parquet(?)"
    count, low, high, deviation, *quantiles = duckdb.execute(query, [names]).fetchone()
    return count, low, high, deviation, quantiles


def with_pyarrow(files, fractions):
    import numpy
    import pyarrow.parquet

    tables = [pyarrow.parquet.read_table(file, columns=["latency_ns"]) for file in files]
    values = numpy.concatenate([t["latency_ns"].drop_null().to_numpy() for t in tables])
    quantiles = [float(numpy.quantile(values, p)) for p in fractions]
    return len(values), values.min(), values.max(), values.std(ddof=1), quantiles


def readers():
    found = []
    for module, reader in (("duckdb", with_duckdb), ("pyarrow", with_pyarrow)):
        try:
            __import__(module)
        except ImportError:
            continue
        found.append((module, reader))
    if not found:
        sys.exit("neither duckdb nor pyarrow is installed: pip install duckdb")
    return found


def close(name, found, expected):
    if abs(found - expected) > TOLERANCE * max(abs(found), abs(expected)):
        sys.exit(f"{name}: summary says {expected!r}, the samples say {found!r}")


def check(run, cell, files, reader):
    latency = cell["latency"]
    known = [q for q in latency["quantiles"] if q.get("value_ns") is not None]
    fractions = [q["p"] for q in known] + [0.25, 0.75]
    expected = [q["value_ns"] for q in known] + latency["iqr_ns"]
    count, low, high, deviation, quantiles = reader(files, fractions)
    close(f"{cell['id']} samples", count, latency["samples"])
    close(f"{cell['id']} min", low, latency["min_ns"])
    close(f"{cell['id']} max", high, latency["max_ns"])
    close(f"{cell['id']} sd", deviation, latency["sd_ns"])
    for p, found, value in zip(fractions, quantiles, expected):
        close(f"{cell['id']} p{p * 100:g}", found, value)
    return len(fractions) + 4


def main():
    run = pathlib.Path(sys.argv[1])
    summary = json.loads((run / "summary.json").read_text())
    files = {}
    for trial in summary["trials"]:
        if trial.get("failed") is None:
            record = json.loads((run / f"trials/{trial['trial']:04}/trial.json").read_text())
            if record.get("samples"):
                files.setdefault(trial["cell"], []).append(run / record["samples"])
    for name, reader in readers():
        numbers = 0
        for cell in summary["cells"]:
            if cell.get("latency"):
                numbers += check(run, cell, files[cell["id"]], reader)
        if numbers == 0:
            sys.exit("there was nothing to compare")
        print(f"{name}: {numbers} numbers of {len(files)} cells agree")


if __name__ == "__main__":
    main()
