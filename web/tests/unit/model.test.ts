import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { answersOf, isTheSame } from '../../src/answers';
import { csv } from '../../src/csv';
import { load } from '../../src/load';
import { buildModel, cdfAt, curveAt, shortTitle, type Model } from '../../src/model';
import { DARK, LIGHT, look, PAPER } from '../../src/palette';
import { splitAt } from '../../src/plots/percentiles';
import type { Cell, Group, Pair, Summary, Verdict } from '../../src/summary';

const text = readFileSync(new URL('../fixtures/summary.json', import.meta.url), 'utf8');

function fixture(): { summary: Summary; model: Model } {
  const loaded = load(text);
  if ('problem' in loaded) throw new Error(loaded.problem);
  return { summary: loaded.summary, model: buildModel(loaded.summary, loaded.seed) };
}

describe('loading', () => {
  it('tells an empty page from a broken one and from another version', () => {
    expect(load('/*latlab-summary*/')).toMatchObject({
      problem: expect.stringContaining('without'),
    });
    expect(load('{"a":')).toMatchObject({ problem: expect.stringContaining('JSON') });
    expect(load('{"format":"latlab.summary/9"}')).toMatchObject({
      problem: expect.stringContaining('latlab.summary/9'),
    });
    expect(load('null')).toHaveProperty('problem');
  });

  it('keeps all digits of the seed', () => {
    const loaded = load('{"format":"latlab.summary/1","seed":18446744073709551615}');
    expect(loaded).toMatchObject({ seed: '18446744073709551615' });
  });

  it('reads what is escaped for HTML', () => {
    const loaded = load('{"format":"latlab.summary/1","study":"a<\\/script>b","seed":1}');
    expect('summary' in loaded && loaded.summary.study).toBe('a</script>b');
  });
});

describe('series', () => {
  it('are the same in every group', () => {
    const { model } = fixture();
    expect(model.series.map((series) => series.label)).toEqual(['native', 'container', 'vm']);
    for (const cell of model.summary.cells) {
      expect(model.seriesOf.get(cell.id)?.label).toBe(cell.levels['kind']);
    }
    expect(model.series.map((series) => series.emulated)).toEqual([false, false, true]);
  });

  it('look different in more than colour', () => {
    const first = [0, 1, 2, 3, 4, 5, 6, 7].map(look);
    expect(new Set(first.map((l) => l.dash)).size).toBe(8);
    const many = Array.from({ length: 40 }, (_, i) => look(i));
    expect(new Set(many.map((l) => `${l.color} ${l.dash}`)).size).toBe(40);
  });

  it('have a contrast of 3 to 1 with the paper', () => {
    for (const color of LIGHT) expect(contrast(color, PAPER.light), color).toBeGreaterThan(3);
    for (const color of DARK) expect(contrast(color, PAPER.dark), color).toBeGreaterThan(3);
  });
});

describe('reading curves', () => {
  const cell = (curve: Pair[], cdf: Pair[] = []): Cell =>
    ({ latency: { curve, cdf, quantiles: [] } }) as unknown as Cell;

  it('is exact at the points and straight on the logarithmic axes between', () => {
    const one = cell([
      [1, 100],
      [10, 1000],
      [100, 10_000],
    ]);
    expect(curveAt(one, 0)).toBe(100);
    expect(curveAt(one, 0.9)).toBeCloseTo(1000, 6);
    expect(curveAt(one, 0.99)).toBeCloseTo(10_000, 6);
    expect(curveAt(one, 1 - 1 / Math.sqrt(10))).toBeCloseTo(100 * Math.sqrt(10), 6);
  });

  it('ends with the samples', () => {
    const one = cell([
      [1, 100],
      [1000, 200],
    ]);
    expect(curveAt(one, 0.999)).toBeCloseTo(200, 6);
    expect(curveAt(one, 0.9999)).toBeNull();
    expect(curveAt(one, 1)).toBeNull();
    expect(curveAt(one, NaN)).toBeNull();
    expect(curveAt(cell([]), 0.5)).toBeNull();
  });

  it('reads shares', () => {
    const one = cell(
      [],
      [
        [100, 0],
        [1000, 1],
      ],
    );
    expect(cdfAt(one, 50)).toBe(0);
    expect(cdfAt(one, 5000)).toBe(1);
    expect(cdfAt(one, 100 * Math.sqrt(10))).toBeCloseTo(0.5, 6);
  });

  it('splits where the samples end to carry it', () => {
    const curve: Pair[] = [
      [1, 100],
      [10, 1000],
      [100, 10_000],
    ];
    const [sound, thin] = splitAt(curve, Math.sqrt(1000));
    expect(sound[sound.length - 1]).toEqual(thin[0]);
    expect(thin[0]?.[1]).toBeCloseTo(100 * Math.sqrt(1000), 6);
    expect(splitAt(curve, 1000)).toEqual([curve, []]);
    expect(splitAt(curve, 0.5)).toEqual([[], curve]);
  });
});

describe('answers', () => {
  const say = (change: (cell: Cell) => void): string[] => {
    const { model } = fixture();
    const group = model.groups.get('rr-udp/link=bridge') as Group;
    for (const id of group.cells) change(model.cells.get(id) as Cell);
    return answersOf(model, group).map(({ cell, figure, of, verdict, clauses, remarks }) =>
      [cell.label, figure, of, verdict, ...clauses, ...remarks].join('|').replace(/\u2009/g, ' '),
    );
  };

  it('compare with the baseline', () => {
    const alike = ({ comparison }: Cell): void => {
      if (comparison?.verdict === 'not-proven') comparison.verdict = 'no-difference';
    };
    expect(say(alike)).toEqual([
      'container|1.02×|of native|median alike|20.2 µs against 19.8 µs|p99.99 1.16× [1.08–1.25]',
      'vm|20.7×|of native|slower|411 µs against 19.8 µs|p99.9 30.4× [28.3–32.9]|software emulation',
    ]);
  });

  it('name what was emulated', () => {
    const emulation = ['the machine (QEMU, software emulation)', 'card eth0 (igb, by QEMU)'];
    const named = say(({ environment }) => {
      environment.emulation = emulation;
    });
    expect(named[0]).toMatch(/\|emulated: the machine .*, card eth0 \(igb, by QEMU\)$/);
  });

  it('do not say that none was found of a difference that is not proven', () => {
    const words = (verdict: Verdict): string | undefined =>
      say(({ comparison }) => {
        if (comparison) comparison.verdict = verdict;
      })[0]?.split('|')[3];
    expect(words('not-proven')).toBe('difference not proven');
    expect(words('inconclusive')).toBe('inconclusive');
    expect(words('no-difference')).toBe('median alike');
  });

  it('say how many trials were repeated', () => {
    const repeated = say((cell) => {
      if (cell.label === 'vm') cell.repeated = 2;
    });
    expect(repeated[1]).toMatch(/2 of \d+ trials repeated$/);
    expect(repeated[0]).not.toContain('repeated');
  });

  it('say what could not be compared', () => {
    const lines = say((cell) => {
      delete cell.comparison;
      if (cell.label === 'vm') cell.replicates = 0;
    });
    expect(lines).toEqual([
      'container|20.2 µs|||not compared',
      'vm||||not measured: no trial succeeded',
    ]);
  });

  it('name a baseline that was not measured', () => {
    const { model } = fixture();
    const group = { ...(model.groups.get('rr-udp/link=bridge') as Group) };
    delete group.baseline;
    const clauses = answersOf(model, group).map((answer) => answer.clauses[0]);
    expect(new Set(clauses)).toEqual(new Set(['baseline not measured']));
  });

  it('miss no baseline in a study that names none', () => {
    const { model } = fixture();
    const group = { ...(model.groups.get('rr-udp/link=bridge') as Group) };
    delete group.baseline;
    model.summary.baseline = {};
    const clauses = answersOf(model, group).flatMap((answer) => answer.clauses);
    expect(clauses).toEqual([]);
  });

  it('are folded only where the tails are alike too', () => {
    const { model } = fixture();
    const cell = model.cells.get('rr-udp/kind=container/link=bridge') as Cell;
    const judge = (verdict: Verdict): boolean => {
      if (cell.comparison) cell.comparison.verdict = verdict;
      return isTheSame(cell);
    };
    expect(judge('no-difference')).toBe(false);
    for (const tail of cell.comparison?.tails ?? []) tail.p_value = 0.06;
    expect(judge('no-difference')).toBe(true);
    for (const verdict of ['not-proven', 'inconclusive', 'worse'] as const) {
      expect(judge(verdict), verdict).toBe(false);
    }
    delete cell.comparison;
    expect(isTheSame(cell)).toBe(false);
  });

  it('have titles without the name of the measurement', () => {
    expect(shortTitle({ title: 'rr · link bridge', measurement: 'rr' } as Group)).toBe(
      'link bridge',
    );
    expect(shortTitle({ title: 'rr', measurement: 'rr' } as Group)).toBe('rr');
  });
});

describe('CSV', () => {
  it('has a row a cell, all equally long, and leaves out what is not known', () => {
    const { model, summary } = fixture();
    const rows = csv(model).trimEnd().split('\r\n');
    expect(rows).toHaveLength(summary.cells.length + 1);
    const head = (rows[0] as string).split(',');
    const few = (rows.find((row) => row.startsWith('rr-udp/kind=vm/link=nat')) ?? '').split(',');
    expect(few).toHaveLength(head.length);
    expect(few[head.indexOf('p99_ns')]).toBe('');
    expect(Number(few[head.indexOf('p50_ns')])).toBeGreaterThan(0);
  });

  it('has the unit of each metric beside its value', () => {
    const { model, summary } = fixture();
    const [one, two] = summary.cells.filter((cell) => cell.metrics.length > 0) as [Cell, Cell];
    const metric = two.metrics[0] as Cell['metrics'][number];
    expect(metric.name).toBe(one.metrics[0]?.name);
    metric.unit = 'GB, or so';
    const [head, ...rows] = csv(model)
      .trimEnd()
      .split('\r\n')
      .map((row) => row.split(/,(?! )/));
    const at = head?.indexOf(metric.name) ?? -1;
    expect(head?.[at + 1]).toBe(`${metric.name}_unit`);
    const row = (cell: Cell): string[] | undefined => rows.find(([id]) => id === cell.id);
    expect(row(one)?.[at + 1]).toBe(one.metrics[0]?.unit);
    expect(row(two)?.slice(at, at + 2)).toEqual([String(metric.spread.median), '"GB, or so"']);
  });

  it('has no formula, and leaves numbers as they are', () => {
    const { model } = fixture();
    const cell = model.summary.cells[0] as Cell;
    const first = (text: string): string | undefined => {
      cell.id = text;
      return csv(model).split('\r\n')[1]?.split(',')[0];
    };
    // As in the test of csv_row.
    for (const [text, written] of [
      ['=HYPERLINK(1)', "'=HYPERLINK(1)"],
      ['@x', "'@x"],
      ['+1+2', "'+1+2"],
      ['-2+3', "'-2+3"],
      ['-', "'-"],
      ['-5', '-5'],
      ['+1.5e3', '+1.5e3'],
      ['a=b', 'a=b'],
    ] as const) {
      expect(first(text)).toBe(written);
    }
  });

  it('quotes', () => {
    const { model } = fixture();
    (model.summary.cells[0] as Cell).id = 'a "b", c';
    expect(csv(model)).toContain('"a ""b"", c",rr-udp');
  });
});

function contrast(a: string, b: string): number {
  const luminance = (hex: string): number => {
    const [red, green, blue] = [1, 3, 5].map((i) => {
      const v = parseInt(hex.slice(i, i + 2), 16) / 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}
