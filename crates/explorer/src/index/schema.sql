-- The index of a directory of runs. All of it is computed from the run directories.

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    stamp TEXT NOT NULL,
    study TEXT NOT NULL,
    machine TEXT NOT NULL,
    version TEXT NOT NULL,
    kernel TEXT NOT NULL,
    state TEXT NOT NULL,
    started TEXT NOT NULL,
    cells INTEGER NOT NULL
);
CREATE INDEX run_started ON run (started);
CREATE INDEX run_study ON run (study);

-- What the page shows of a run. Some KiB each, so apart from `run`, whose rows a search reads all.
CREATE TABLE document (
    run INTEGER PRIMARY KEY REFERENCES run ON DELETE CASCADE,
    json TEXT NOT NULL
);

CREATE TABLE level (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    factor TEXT NOT NULL,
    level TEXT NOT NULL
);
CREATE INDEX level_factor ON level (factor, level);
CREATE INDEX level_run ON level (run);

CREATE TABLE measurement (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    name TEXT NOT NULL
);
CREATE INDEX measurement_run ON measurement (run);

CREATE TABLE tag (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    name TEXT NOT NULL
);
CREATE INDEX tag_run ON tag (run);

CREATE VIRTUAL TABLE words USING fts5 (text, prefix = '2 3 4');

-- A quantity of a cell, in whichever runs have it.
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    cell TEXT NOT NULL,
    quantity TEXT NOT NULL,
    unit TEXT NOT NULL,
    higher_is_better INTEGER NOT NULL,
    UNIQUE (cell, quantity, unit, higher_is_better)
);

CREATE TABLE result (
    series INTEGER NOT NULL REFERENCES series,
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    value REAL NOT NULL,
    low REAL,
    high REAL,
    ruler_spread REAL NOT NULL,
    trials INTEGER NOT NULL,
    replicates TEXT NOT NULL,
    PRIMARY KEY (series, run)
) WITHOUT ROWID;
CREATE INDEX result_run ON result (run);
