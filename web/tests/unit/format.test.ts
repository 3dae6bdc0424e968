import { describe, expect, it } from 'vitest';

import * as format from '../../src/format';

/** Thin and narrow spaces as plain ones, so that expectations can be read. */
const plain = (text: string): string => text.replace(/[\u2009\u202f\u200a]/g, ' ');

describe('durations', () => {
  it.each([
    [17_893, '17.9 µs'],
    [402_000, '402 µs'],
    [999.4, '999 ns'],
    [999.6, '1.00 µs'],
    [999_950, '1.00 ms'],
    [1_234_567, '1.23 ms'],
    [61_000_000_000, '61.0 s'],
    [0.42, '0.420 ns'],
    [0, '0 ns'],
    [-1500, '\u22121.50 µs'],
  ])('%f ns is %s', (ns, text) => {
    expect(plain(format.duration(ns))).toBe(text);
  });

  it('never shows what is not a number', () => {
    for (const value of [NaN, Infinity, undefined, null]) {
      expect(format.duration(value)).toBe(format.NONE);
      expect(format.ratio(value)).toBe(format.NONE);
      expect(format.count(value)).toBe(format.NONE);
    }
    expect(format.durationRange([NaN, 3])).toBe(format.NONE);
  });

  it('writes an interval in one unit', () => {
    expect(plain(format.durationRange([17_200, 18_400]))).toBe('17.2–18.4 µs');
    expect(plain(format.durationRange([814_000, 1_090_000]))).toBe('0.814–1.09 ms');
  });

  it('writes an interval that says nothing as what it is', () => {
    expect(plain(format.durationRange([44.2, 70_600_000_000]))).toBe('44.2 ns–70.6 s');
    expect(plain(format.durationRange([27.9, 5_280_000]))).toBe('27.9 ns–5.28 ms');
    expect(format.ratioRange([0.000_079_2, 119_671])).toBe('<0.001–>1000');
    expect(format.ratioRange([292, 2162])).toBe('292–2162');
    expect(plain(format.ratioRange([38_123, 947_123]))).toBe('38 100–947 000');
    expect(plain(format.ratio(189_943))).toBe('190 000×');
    expect(format.ratio(1551)).toBe('1551×');
  });

  it('labels an axis without trailing zeros', () => {
    expect(plain(format.durationTick(20_000))).toBe('20 µs');
    expect(plain(format.durationTick(2_500_000))).toBe('2.5 ms');
  });
});

describe('percentiles', () => {
  it.each([
    [0, '0 %'],
    [0.5, '50 %'],
    [0.9, '90 %'],
    [0.99, '99 %'],
    [0.999, '99.9 %'],
    [0.99999, '99.999 %'],
    [1 - 1 / 1000, '99.9 %'],
    [1 - 1 / 100_000, '99.999 %'],
    [0.9937, '99.37 %'],
  ])('%f is %s', (p, text) => {
    expect(plain(format.percentile(p))).toBe(text);
  });

  it('has enough digits to tell neighbours of the tail apart', () => {
    expect(format.percentile(0.99991)).not.toBe(format.percentile(0.99995));
  });

  it('names columns', () => {
    expect([0.5, 0.99, 0.9999].map(format.percentileName)).toEqual(['p50', 'p99', 'p99.99']);
  });
});

describe('other quantities', () => {
  it('writes rates, bytes, counts and ratios', () => {
    expect(plain(format.bitRate(21.83e9))).toBe('21.8 Gbit/s');
    expect(plain(format.bytes(25_276_514_304))).toBe('23.5 GiB');
    expect(plain(format.count(40_000))).toBe('40 000');
    expect(plain(format.count(1234))).toBe('1234');
    expect(format.ratio(1.0182)).toBe('1.02×');
    expect(format.ratio(213.4)).toBe('213×');
    expect(plain(format.pValue(0.0004))).toBe('< 0.001');
    expect(format.pValue(0.0079)).toBe('0.0079');
  });

  it('writes metrics in the unit they name', () => {
    expect(plain(format.quantity(24 * 1024 ** 2, 'B'))).toBe('24.0 MiB');
    expect(plain(format.quantity(-21.2 * 1024 ** 2, 'B'))).toBe('\u221221.2 MiB');
    expect(plain(format.quantity(0.0123, '1'))).toBe('1.23 %');
    expect(plain(format.quantity(0.311, 'ns/byte'))).toBe('0.311 ns/byte');
    expect(plain(format.quantityRange([1.81e9, 1.85e9], 'bit/s'))).toBe('1.81–1.85 Gbit/s');
    expect(plain(format.quantityRange([0.9e9, 1.85e9], 'bit/s'))).toBe('900 Mbit/s–1.85 Gbit/s');
  });

  it('writes moments and spans', () => {
    expect(format.moment('2025-06-11T09:30:00Z')).toBe('11 June 2025, 09:30 UTC');
    expect(format.moment('soon')).toBe('soon');
    expect(plain(format.elapsed('2025-06-11T09:30:00Z', '2025-06-11T09:35:31Z'))).toBe(
      '5 min 31 s',
    );
    expect(format.elapsed('soon', 'later')).toBe(format.NONE);
  });
});
