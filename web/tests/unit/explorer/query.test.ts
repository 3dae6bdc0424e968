import { describe, expect, it } from 'vitest';

import { parseTags } from '../../../src/explorer/editor';
import { exactTerm, hasTerm, terms, toggled } from '../../../src/explorer/query';

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
    expect(exactTerm('study', 'quick')).toBe('study=quick');
    expect(exactTerm('machine', 'AMD EPYC · 2 CPUs')).toBe('machine="AMD EPYC · 2 CPUs"');
    expect(exactTerm('kind', '-x')).toBe('kind="-x"');
    expect(exactTerm('a:b', 'vm')).toBe('"a:b"=vm');
  });

  it('asks for the longest piece of a value that has quotation marks', () => {
    expect(exactTerm('tag', 'a"long piece"b')).toBe('"long piece"');
  });

  it('stays one term whatever the value holds', () => {
    for (const value of ['a" -study:b "c', '"', 'a"b', ' ', '', '\n"x"\t', 'a=b c']) {
      expect(terms(exactTerm('study', value))).toHaveLength(1);
      expect(terms(exactTerm(value, 'vm'))).toHaveLength(1);
    }
  });

  it('is added to a query and taken away again', () => {
    const term = exactTerm('machine', 'AMD EPYC');
    const added = toggled('quick', term);
    expect(added).toBe('quick machine="AMD EPYC"');
    expect(hasTerm(added, term)).toBe(true);
    expect(toggled(added, term)).toBe('quick');
    expect(toggled('', term)).toBe(term);
  });

  it('is not taken for the one that excludes it', () => {
    expect(hasTerm('-study=quick', 'study=quick')).toBe(false);
    expect(hasTerm('study=quickest', 'study=quick')).toBe(false);
  });
});

it('tags are words, once each', () => {
  expect(parseTags(' baseline, before-upgrade  ,, baseline\n')).toEqual([
    'baseline',
    'before-upgrade',
  ]);
  expect(parseTags('')).toEqual([]);
});
