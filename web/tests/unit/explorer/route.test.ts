import { describe, expect, it } from 'vitest';

import {
  fragmentOf,
  LIST,
  parseRoute,
  reportAddress,
  type Route,
} from '../../../src/explorer/route';

const HOSTILE = ['<img src=x onerror=alert(1)>', 'a&run=b', '100% #1?', '../..', 'ü‮\u05d0 "x" +1'];

describe('fragments', () => {
  it('come back as the route that they were made from', () => {
    for (const text of HOSTILE) {
      const routes: Route[] = [
        { ...LIST, query: text, sort: 'study', descending: false, page: 7 },
        {
          view: 'compare',
          runs: [text, 'b', text],
          quantity: text,
          onlyDifferences: true,
          byChange: true,
        },
        { view: 'trend', study: text, cell: text, quantity: text, machine: text },
        { view: 'run', run: text },
      ];
      for (const route of routes) expect(parseRoute(fragmentOf(route))).toEqual(route);
    }
  });

  it('leave out what is as usual', () => {
    expect(fragmentOf(LIST)).toBe('#/');
    expect(fragmentOf({ view: 'trend', study: 's', cell: '', quantity: '', machine: '' })).toBe(
      '#/trend?study=s',
    );
  });

  it('write a space so that every decoder reads it', () => {
    expect(fragmentOf({ view: 'run', run: 'a b+c' })).toBe('#/run?run=a%20b%2Bc');
  });

  it('that say nothing or nonsense are the list of all runs', () => {
    for (const text of [
      '',
      '#',
      '#/',
      '#/nowhere?run=a',
      '#/?page=-3&sort=password',
      '#/?page=1e99',
    ]) {
      expect(parseRoute(text)).toEqual(LIST);
    }
  });

  it('that are damaged are read as far as they go', () => {
    expect(parseRoute('#/run?run=%E0%A4%A')).toMatchObject({ view: 'run' });
  });
});

describe('the address of a report', () => {
  it('encodes each part of a path', () => {
    expect(reportAddress('a b/c?d#e/"<>')).toBe('/report/a%20b/c%3Fd%23e/%22%3C%3E');
  });

  it('is absent for a path that leads elsewhere', () => {
    for (const path of ['../x', 'a/../b', './a', 'a//b', '/a', '']) {
      expect(reportAddress(path)).toBeNull();
    }
  });
});
