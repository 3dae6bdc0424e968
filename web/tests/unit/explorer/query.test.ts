import { describe, expect, it } from 'vitest';

import { parseTags } from '../../../src/explorer/editor';
import { filterTerm, hasTerm, levelTerm, terms, toggled } from '../../../src/explorer/query';

describe('terms of a query', () => {
  it('end at white space outside of quotes', () => {
    expect(terms(' quick  "two words" machine:"AMD EPYC" -tag:x ')).toEqual([
      'quick',
      '"two words"',
      'machine:"AMD EPYC"',
      '-tag:x',
    ]);
  });

  it('may have a quote that never ends', () => {
    expect(terms('a "b c')).toEqual(['a', '"b c']);
  });
});

describe('a filter', () => {
  it('is quoted where it has to be', () => {
    expect(filterTerm('study', 'quick')).toBe('study:quick');
    expect(filterTerm('machine', 'AMD EPYC · 2 CPUs')).toBe('machine:"AMD EPYC · 2 CPUs"');
    expect(levelTerm('kind', 'vm')).toBe('kind=vm');
    expect(levelTerm('kind', 'two words')).toBe('kind="two words"');
  });

  it('stays one term whatever the value holds', () => {
    for (const value of ['a" -study:b "c', '"', 'a"b', ' ', '', '\n"x"\t']) {
      expect(terms(filterTerm('study', value))).toHaveLength(1);
      expect(terms(levelTerm('kind', value))).toHaveLength(1);
      expect(terms(levelTerm(value, 'vm'))).toHaveLength(1);
    }
  });

  it('is added to a query and taken away again', () => {
    const term = filterTerm('machine', 'AMD EPYC');
    const added = toggled('quick', term);
    expect(added).toBe('quick machine:"AMD EPYC"');
    expect(hasTerm(added, term)).toBe(true);
    expect(toggled(added, term)).toBe('quick');
    expect(toggled('', term)).toBe(term);
  });

  it('is not taken for the one that excludes it', () => {
    expect(hasTerm('-study:quick', 'study:quick')).toBe(false);
    expect(hasTerm('study:quickest', 'study:quick')).toBe(false);
  });
});

it('tags are parted by commas, once each', () => {
  expect(parseTags(' baseline, before upgrade ,, baseline,')).toEqual(['baseline', 'before upgrade']);
  expect(parseTags('')).toEqual([]);
});
