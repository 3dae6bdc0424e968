import { expect, it } from 'vitest';

import { draftAfter } from '../../../src/explorer/editor';

const SENT = { note: 'half', tags: ['x', 'y'] };

it('a note that was saved as it stands leaves no draft', () => {
  expect(draftAfter({ note: 'half', tags: ' x, y' }, SENT, SENT)).toBeNull();
});

it('text typed while a note was saved is a draft against what is saved now', () => {
  const typed = { note: 'half a sentence', tags: 'x y' };
  expect(draftAfter(typed, SENT, SENT)).toEqual({ was: SENT, ...typed });
  const tagged = { note: 'half', tags: 'x y z' };
  expect(draftAfter(tagged, SENT, SENT)).toEqual({ was: SENT, ...tagged });
});
