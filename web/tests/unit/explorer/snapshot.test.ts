import { describe, expect, it } from 'vitest';

import { Api, Failure } from '../../../src/explorer/api';
import { LIST } from '../../../src/explorer/route';
import { fileName, filled, parseSnapshot, snapshotText } from '../../../src/explorer/snapshot';

const PLACE = '<script id="snapshot" type="application/json">/*latlab-snapshot*/</script>';
const HOSTILE = `</script><script>alert(1)</script><!-- <script ]]> $& $' \u2028 "\\`;

const snapshot = (text: string) => ({
  made: '2026-11-28T09:30:00Z',
  fragment: '#/',
  answers: { [`/api/runs?q=${text}`]: { study: text } },
});

describe('a snapshot', () => {
  it('has no sign in it that could end its element', () => {
    const text = snapshotText(snapshot(HOSTILE));
    expect(text).not.toContain('<');
    expect(parseSnapshot(text)).toEqual(snapshot(HOSTILE));
  });

  it('goes into its place, and nothing else of the page changes', () => {
    const page = filled(`a ${PLACE} b`, snapshot(HOSTILE));
    expect(page.startsWith('a <script id="snapshot"')).toBe(true);
    expect(page.endsWith('</script> b')).toBe(true);
    expect(page.split('</script>')).toHaveLength(2);
  });

  it('is refused by a page that has no place, or two', () => {
    expect(() => filled('nothing', snapshot(''))).toThrow('no place');
    expect(() => filled(PLACE + PLACE, snapshot(''))).toThrow('no place');
  });

  it('is absent from a page that was served', () => {
    expect(parseSnapshot('/*latlab-snapshot*/')).toBeNull();
  });

  it('answers what it has, and nothing else', async () => {
    const asked = '/api/run?run=a%20b';
    const api = new Api({ made: '', fragment: '', answers: { [asked]: { run: 1 } } });
    expect(await api.run('a b')).toEqual({ address: asked, data: { run: 1 } });
    await expect(api.runs(LIST)).rejects.toThrow(Failure);
  });

  it('is saved under the name and day of its view', () => {
    expect(fileName('compare', '2026-11-28T09:30:00Z')).toBe('explorer-compare-2026-11-28.html');
  });
});
