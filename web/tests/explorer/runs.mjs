// Made-up runs for the explorer's tests and pictures: seeded, so that they are the same every time.

const STUDIES = [
  ['quick', 'Round trips between two namespaces, containers and VMs', 'median latency'],
  ['bridges', 'What a bridge, a macvlan and an overlay cost a packet', 'median latency'],
  ['tails', 'Where the slowest packets of a VM come from', 'p99.9 latency'],
  ['forwarders', 'Forwarding devices under load', 'median latency'],
  ['boot', 'Time until a node answers', 'time to ready'],
];
const MACHINES = [
  ['AMD EPYC 9B45 · 2 CPUs', '6.18.44', 0.45],
  ['Intel Xeon Gold 6254 · 36 CPUs', '6.12.9', 0.3],
  ['AMD Ryzen 7 5800X · 16 CPUs', '6.14.2', 0.15],
  ['Ampere Altra Q80-30 · 80 CPUs', '6.1.128', 0.1],
];
const VERSIONS = ['0.1.0', '0.1.1', '0.2.0-3f2c9ab', '0.2.0-b1745ec', '0.2.0'];
const KINDS = ['container', 'vm', 'native'];
const LINKS = ['bridge', 'veth', 'macvlan', 'overlay'];
const TAGS = ['baseline', 'before-upgrade', 'after-upgrade', 'nightly', 'draft', 'paper'];
const FIRST = Date.UTC(2025, 10, 28);
const LAST = Date.UTC(2026, 10, 28, 9);

/** Numbers from 0 to 1, always the same (mulberry32). */
export function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const pick = (next, list) => list[Math.floor(next() * list.length)];

/** A run of a quick study, with what differs. */
export function run(part) {
  return {
    path: '2026/quick-1',
    id: '0198a1b2c3d4',
    study: 'quick',
    description: null,
    state: 'complete',
    reason: null,
    started: '2026-11-01T09:30:00Z',
    finished: '2026-11-01T09:41:12Z',
    machine: MACHINES[0][0],
    kernel: MACHINES[0][1],
    version: '0.2.0',
    acceleration: 'kvm',
    cells: 24,
    trials: 72,
    failed: 0,
    overloaded: 0,
    factors: [
      { name: 'kind', levels: KINDS },
      { name: 'link', levels: LINKS },
    ],
    measurements: ['rr-udp', 'rr-tcp'],
    definitions: { 'rr-udp': 'UDP, one in flight', 'rr-tcp': 'TCP, one in flight' },
    serious: 0,
    tags: [],
    note: '',
    problem: null,
    ...part,
  };
}

/** This many runs over a year, the latest last. */
export function madeUpRuns(count) {
  const next = random(7);
  return Array.from({ length: count }, (_, i) => {
    const [study, description] = pick(next, STUDIES);
    const at = next();
    let sum = 0;
    const [machine, kernel] = MACHINES.find(([, , share]) => (sum += share) > at) ?? MACHINES[0];
    const time = FIRST + ((LAST - FIRST) * (i + 1)) / count;
    const started = new Date(Math.round(time / 1000) * 1000).toISOString().replace('.000', '');
    const age = i / count;
    const state = next() < 0.02 ? 'incomplete' : i === count - 1 ? 'running' : 'complete';
    return run({
      path: `${started.slice(0, 7)}/${study}-${started.slice(0, 19).replace(/[-:]/g, '')}`,
      id: Math.floor(next() * 2 ** 48).toString(16),
      study,
      description,
      state,
      reason: state === 'incomplete' ? 'no space left on device' : null,
      started,
      finished: state === 'running' ? null : new Date(time + 672_000).toISOString(),
      machine,
      kernel,
      version: VERSIONS[Math.min(VERSIONS.length - 1, Math.floor(age * VERSIONS.length))],
      acceleration: next() < 0.05 ? 'tcg' : 'kvm',
      failed: next() < 0.04 ? 1 + Math.floor(next() * 3) : 0,
      overloaded: next() < 0.15 ? 1 + Math.floor(next() * 9) : 0,
      serious: next() < 0.06 ? 1 : 0,
      tags: next() < 0.2 ? [pick(next, TAGS)] : [],
      note:
        next() < 0.06 ? 'Governor was powersave until noon; see the other run of this day.' : '',
    });
  });
}

export const CELLS = ['rr-udp', 'rr-tcp']
  .flatMap((measurement) =>
    KINDS.flatMap((kind) => LINKS.map((link) => ({ measurement, kind, link }))),
  )
  .map(({ measurement, kind, link }) => ({
    id: `${measurement}/${kind}/${link}`,
    label: `${kind} · ${link}`,
    measurement,
  }));

const QUANTITIES = [
  ['median latency', 'ns', false, 1],
  ['p99 latency', 'ns', false, 2.4],
  ['p99.9 latency', 'ns', false, 6],
];

/** The values of a cell in the n-th of many runs, with two steps over the year. */
export function valuesOf(cell, made, age) {
  const index = CELLS.indexOf(cell);
  const next = random(index * 7919 + Math.round(age * 1e6));
  const slow = MACHINES.findIndex(([machine]) => machine === made.machine);
  const step = age < 0.4 ? 1 : age < 0.75 ? 1.26 : 1.08;
  const base = 9000 * (1 + (index % 12) * 0.35) * (1 + Math.max(0, slow) * 0.3);
  return QUANTITIES.map(([quantity, unit, higher_is_better, factor]) => {
    const noise = Math.exp((next() - 0.5) * 0.07 * factor);
    const changes = index % 3 === 0 ? step : 1;
    const value = base * factor * changes * noise;
    const spread = 0.015 * factor;
    return {
      quantity,
      unit,
      higher_is_better,
      value,
      low: value * (1 - spread),
      high: value * (1 + spread),
      replicates: 3,
    };
  });
}
