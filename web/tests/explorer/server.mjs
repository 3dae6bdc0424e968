// A server that answers as `latlab serve` does, from runs in memory, so that the page's own tests need no other program.

import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { CELLS, valuesOf } from './runs.mjs';

const PAGE = fileURLToPath(new URL('../../dist/explorer.html', import.meta.url));

class Refusal extends Error {
  constructor(status, error, hint = null) {
    super(error);
    this.status = status;
    this.body = { error, hint };
  }
}

/** Serves the built page and these runs; `requests` has every path that was asked for. */
export async function serve(runs, options = {}) {
  const state = { runs, requests: [], indexing: null, delay: () => 0, refuse: null, ...options };
  // Names of 10 kB make addresses of 30.
  const server = createServer({ maxHeaderSize: 1 << 18 }, (request, response) => {
    void respond(state, request, response);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  return {
    ...{ state, url: `http://127.0.0.1:${port}/` },
    stop: () => new Promise((done) => (server.closeAllConnections(), server.close(done))),
  };
}

async function respond(state, request, response) {
  const url = new URL(request.url, 'http://127.0.0.1');
  state.requests.push(request.url);
  const send = (status, type, body) => {
    response.writeHead(status, { 'Content-Type': type, 'Cache-Control': 'no-store' });
    response.end(body);
  };
  try {
    await new Promise((done) => setTimeout(done, state.delay(url)));
    if (url.pathname === '/') return send(200, 'text/html; charset=utf-8', readFileSync(PAGE));
    if (url.pathname.startsWith('/report/')) return send(200, 'text/html', '<title>report</title>');
    if (state.refuse) throw new Refusal(...state.refuse);
    const answer = ANSWERS[`${request.method} ${url.pathname}`];
    if (!answer) throw new Refusal(404, `${url.pathname}: no such address`);
    const body = await answer(state, url.searchParams, request);
    send(200, 'application/json', JSON.stringify(body));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    send(error.status, 'application/json', JSON.stringify(error.body));
  }
}

const ANSWERS = {
  'GET /api/runs': list,
  'GET /api/run': (state, asked) => detail(state, asked.get('run')),
  'PUT /api/note': write,
  'GET /api/compare': (state, asked) => compare(state, asked.getAll('run')),
  'GET /api/choices': choices,
  'GET /api/trend': trend,
};

function list({ runs, indexing }, asked) {
  const query = asked.get('q') ?? '';
  const sort = asked.get('sort') ?? '-started';
  const key = sort.replace('-', '');
  const sign = sort.startsWith('-') ? -1 : 1;
  const tests = (query.match(/(?:"[^"]*"|[^\s"])+/g) ?? []).map(testOf);
  const matched = runs.filter((run) => tests.every((test) => test(run)));
  matched.sort((a, b) => (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0) * sign);
  const offset = Number(asked.get('offset'));
  return {
    total: runs.length,
    matched: matched.length,
    indexing,
    runs: matched.slice(offset, offset + Number(asked.get('limit'))),
    facets: {
      study: counted(matched.map((run) => run.study)),
      machine: counted(matched.map((run) => run.machine)),
      version: counted(matched.map((run) => run.version)),
      state: counted(matched.map((run) => run.state)),
      tag: counted(matched.flatMap((run) => run.tags)),
    },
  };
}

function testOf(term) {
  const [, minus, rest] = /^(-?)([\s\S]*)$/.exec(term);
  const test = positive(rest);
  return minus ? (run) => !test(run) : test;
}

const FIELDS = {
  ...Object.fromEntries('study machine version kernel state path'.split(' ').map((n) => [n, n])),
  ...{ tag: 'tags', measurement: 'measurements' },
};

function positive(term) {
  const plain = (text) => text.replaceAll('"', '');
  const [, name, sign, value] = /^("[^"]*"|[^\s"=:]+)([=:])([\s\S]+)$/.exec(term) ?? [];
  const field = FIELDS[plain(name ?? '')];
  const of = (run) => [run[field]].flat();
  if (sign === '=') {
    const wanted = plain(value);
    return (run) =>
      (field !== undefined && of(run).includes(wanted)) ||
      run.factors.some((f) => f.name === plain(name) && f.levels.includes(wanted));
  }
  if (sign === ':') {
    if (field === undefined) {
      throw new Refusal(400, `\`${name}:\` is no field`, 'fields are study, machine, tag, …');
    }
    return (run) => of(run).some((text) => text.includes(plain(value)));
  }
  const words = plain(term).toLowerCase();
  return (run) =>
    `${run.path} ${run.study} ${run.machine} ${run.tags.join(' ')} ${run.note}`
      .toLowerCase()
      .split(/[^\p{L}\p{N}]+/u)
      .some((word) => word.startsWith(words));
}

function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 20);
}

function find({ runs }, path) {
  const run = runs.find((one) => one.path === path);
  if (!run) throw new Refusal(404, `run ${path}: not found`, 'Look for it in the list of runs.');
  return run;
}

const ageOf = ({ runs }, run) => runs.indexOf(run) / runs.length;

/** A run's own cells where a test gives it some. */
const cellsOf = (state, run) =>
  state.cells ??
  CELLS.map((cell) => ({ ...cell, quantities: valuesOf(cell, run, ageOf(state, run)) }));

function detail(state, path) {
  const run = find(state, path);
  const notes = [
    { severity: 'caution', text: 'The CPU’s frequency changed while trials ran.' },
    ...(run.serious > 0
      ? [{ severity: 'serious', text: 'The clock of two trials was adjusted while they ran.' }]
      : []),
  ];
  const has_report = run.problem === null && run.state !== 'running';
  const cells = has_report ? cellsOf(state, run) : [];
  return { run, has_report, cells, notes: state.notes ?? notes };
}

async function write(state, asked, request) {
  const run = find(state, asked.get('run'));
  let text = '';
  for await (const chunk of request) text += chunk;
  const { note, tags, was } = JSON.parse(text);
  if (was.note !== run.note || was.tags.join() !== run.tags.join()) {
    throw new Refusal(409, `note of ${run.path}: someone else changed it`, 'Read it, then decide.');
  }
  if (state.readOnly) throw new Refusal(403, `note of ${run.path}: the directory is read-only`);
  Object.assign(run, { note, tags });
  return run;
}

function compare(state, paths) {
  const runs = paths.map((path) => find(state, path));
  const cells = runs.map((run) => cellsOf(state, run));
  const [base] = runs;
  const warnings = runs.map((run) => [
    ...(run.machine === base.machine
      ? []
      : [`the machine is ${run.machine} against ${base.machine}`]),
    ...(run.kernel === base.kernel ? [] : [`the kernel is ${run.kernel} against ${base.kernel}`]),
  ]);
  const rows = cells[0].flatMap((cell, i) =>
    cell.quantities.map((own, q) => ({
      cell: cell.id,
      quantity: own.quantity,
      unit: own.unit,
      higher_is_better: own.higher_is_better,
      values: cells.map((its, run) => compared(its[i]?.quantities[q], own, run)),
    })),
  );
  return { runs, warnings, rows };
}

function compared(value, base, run) {
  if (!value) return null;
  const { low, high, replicates } = value;
  const plain = { value: value.value, low, high, replicates };
  if (run === 0) {
    return { ...plain, ratio: null, ratio_low: null, ratio_high: null, verdict: null };
  }
  const ratio = value.value / base.value;
  const spread = (high - low) / value.value;
  const [ratio_low, ratio_high] = [ratio * (1 - spread), ratio * (1 + spread)];
  const isSure = ratio_low > 1 || ratio_high < 1;
  const verdict = isSure
    ? ratio > 1
      ? 'worse'
      : 'better'
    : spread > 0.15
      ? 'inconclusive'
      : 'no-difference';
  return { ...plain, ratio, ratio_low, ratio_high, verdict };
}

const ofStudy = ({ runs }, asked) => runs.filter((run) => run.study === asked.get('study'));

function choices(state, asked) {
  const runs = ofStudy(state, asked);
  if (runs.length === 0) {
    throw new Refusal(404, `study ${asked.get('study')}: no run has it`, 'Choose another study.');
  }
  return {
    cells: cellsOf(state, runs[0]).map(({ id, quantities }) => ({
      cell: id,
      quantities: quantities.map(({ quantity }) => quantity),
      runs: runs.length,
    })),
    machines: counted(runs.map((run) => run.machine)),
  };
}

function trend(state, asked) {
  const [study, cell, quantity, machine] = ['study', 'cell', 'quantity', 'machine'].map((name) =>
    asked.get(name),
  );
  const runs = ofStudy(state, asked).filter((run) => !machine || run.machine === machine);
  const machines = counted(runs.map((run) => run.machine)).map(([name]) => name);
  let about = { unit: 'ns', higher_is_better: false };
  const series = machines.map((name) => {
    const own = runs.filter((run) => run.machine === name);
    own.sort((a, b) => (a.started < b.started ? -1 : 1));
    const points = own.flatMap((run) => {
      const found = cellsOf(state, run)
        .find(({ id }) => id === cell)
        ?.quantities.find((one) => one.quantity === quantity);
      if (!found) return [];
      about = found;
      const { path, id, started, version, kernel, tags, note } = run;
      const { value, low, high, replicates } = found;
      return {
        path,
        id,
        started,
        value,
        low,
        high,
        replicates,
        version,
        kernel,
        state: run.state,
        tags,
        note,
      };
    });
    const definition = runs[0]?.definitions[cell.split('/')[0]] ?? '';
    return { machine: name, definition, points, changes: changesOf(points) };
  });
  const { unit, higher_is_better } = about;
  return { study, cell, quantity, unit, higher_is_better, series };
}

/** Where the made-up values step: at 0.4 and 0.75 of the year. */
function changesOf(points) {
  if (points.length < 12) return [];
  const times = points.map((point) => Date.parse(point.started));
  const [first, last] = [Date.UTC(2025, 10, 28), Date.UTC(2026, 10, 28, 9)];
  const indexes = [0.4, 0.75]
    .map((age) => times.findIndex((time) => time >= first + (last - first) * age))
    .filter((index) => index > 0);
  const ends = [0, ...indexes, points.length];
  const centre = (from, to) => {
    const values = points.slice(from, to).map((point) => point.value);
    return values.sort((a, b) => a - b)[values.length >> 1];
  };
  return indexes.flatMap((index, i) => {
    const before = centre(ends[i], index);
    const after = centre(index, ends[i + 2]);
    const ratio = after / before;
    return Math.abs(Math.log(ratio)) < 0.05
      ? []
      : [{ index, before, after, ratio, p_value: 0.0001 }];
  });
}
