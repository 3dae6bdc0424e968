import { describe, expect, it } from 'vitest';

import { flames } from '../../src/plots/flame';
import type { Code } from '../../src/summary';

const code: Code = {
  rate: 1000,
  slow: 10,
  otherwise: 100,
  lost: 0,
  functions: [
    ['forwarder', null, 10, 100],
    ['send', 0, 0, 40],
    ['compute', 0, 9, 10],
    ['add', 2, 5, 0],
  ],
};

describe('the flame graph', () => {
  const all = flames(code);
  const named = (name: string) => all.find((one) => one.name === name)!;

  it('makes a function as wide as the mean of its shares', () => {
    expect(all.map((one) => one.width)).toEqual([1000, 200, 500, 250]);
    expect(named('compute')).toMatchObject({ slow: 0.9, otherwise: 0.1, depth: 1 });
  });

  it('puts functions below their callers, side by side', () => {
    expect(named('compute').x).toBe(0);
    expect(named('send').x).toBe(500);
    expect(named('add')).toMatchObject({ x: 0, depth: 2 });
    for (const [place, [, caller]] of code.functions.entries()) {
      if (caller === null) continue;
      const [own, of] = [all[place]!, all[caller]!];
      expect(own.x).toBeGreaterThanOrEqual(of.x);
      expect(own.x + own.width).toBeLessThanOrEqual(of.x + of.width + 1e-9);
    }
  });

  it('uses the whole width when no sample fell into slow packets', () => {
    const usual = flames({ ...code, slow: 0, functions: [['forwarder', null, 0, 100]] });
    expect(usual[0]).toMatchObject({ x: 0, width: 1000, slow: 0 });
  });
});
