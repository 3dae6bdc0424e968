// Names, notes and files as an attacker writes them: text stays text in every view and in shared files.

import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';

import type { Run } from '../../../src/explorer/documents';
import { compareFragment, fragmentOf, runFragment } from '../../../src/explorer/route';
import { run } from '../../explorer/runs.mjs';
import { Session, settle } from '../session';
import { desk, shared, unexpected } from './desk';

const session = new Session();
beforeAll(() => session.start());
afterAll(() => session.stop());

const ATTACKS = [
  '<img src=x onerror="window.hacked=1">',
  '</script><script>window.hacked=1</script>',
  '"\' onmouseover="window.hacked=1" x="',
  'javascript:window.hacked=1',
  '<svg onload=window.hacked=1><style>*{display:none}</style>',
  '/*latlab-snapshot*/<script id="snapshot" type="application/json">/*latlab-snapshot*/</script>',
  '\u202e\u2066gnp.exe\u0000\u0007<b>\u05e9\u05dc\u05d5\u05dd',
  '../../../etc/passwd',
  "${window.hacked=1} {{7*7}} $& $' %00 \\u003cscript>",
  `${'long<wbr>'.repeat(1100)}end`,
  'x'.repeat(10_000),
];

/** An attack in every field that is text. */
function hostileRun(text: string, i: number): Run {
  return run({
    path: `${text}/${i}`,
    id: text,
    study: text,
    description: text,
    state: 'incomplete',
    reason: text,
    // A server would not answer that, but a file may say it.
    started: i % 2 === 0 ? text : '2026-11-01T09:30:00Z',
    machine: text,
    kernel: text,
    version: text,
    acceleration: text,
    factors: [{ name: text, levels: [text, `${text} `] }],
    measurements: [text],
    tags: [text.replaceAll(',', ';')],
    note: text,
  });
}

const RUNS = ATTACKS.map(hostileRun);
const PATHS = RUNS.map(({ path }) => path);
const CELLS = ATTACKS.map((text) => ({
  id: text,
  label: text,
  measurement: text,
  quantities: [
    {
      quantity: text,
      unit: text.slice(0, 40),
      higher_is_better: true,
      value: 1,
      low: 0.5,
      high: 2,
      replicates: 3,
    },
  ],
}));
const NOTES = ATTACKS.map((text) => ({ severity: 'serious' as const, text }));

/** Nothing ran, nothing was built from text, and the page is not torn apart. */
async function expectQuiet(page: Page): Promise<void> {
  expect(await page.locator('.failure').count()).toBe(0);
  const found = await page.evaluate(() => ({
    hacked: 'hacked' in window,
    built: document.querySelectorAll('#page img, #page script, #page style, #page b, #page wbr')
      .length,
    handlers: [...document.querySelectorAll('#page *')].filter((one) =>
      [...one.attributes].some(({ name }) => name.startsWith('on')),
    ).length,
    schemes: [...document.querySelectorAll('a')].filter(
      (one) => !['#', '/report/'].some((from) => one.getAttribute('href')?.startsWith(from)),
    ).length,
    over: document.documentElement.scrollWidth - window.innerWidth,
  }));
  expect(found).toMatchObject({ hacked: false, built: 0, handlers: 0, schemes: 0 });
  expect(found.over).toBeLessThanOrEqual(0);
}

const VIEWS: [name: string, fragment: string, shows: string][] = [
  ['list', '#/', '.runs tbody tr'],
  ['comparison', compareFragment(PATHS), '.compared tbody tr'],
  ...ATTACKS.map((text): [string, string, string] => [
    `trend of ${text.slice(0, 20)}`,
    fragmentOf({ view: 'trend', study: text, cell: text, quantity: text, machine: '' }),
    '.trend-line, .trend .hint',
  ]),
  ...PATHS.map((path): [string, string, string] => [
    `run ${path.slice(0, 20)}`,
    runFragment(path),
    '.values tbody tr',
  ]),
];

const options = { cells: CELLS, notes: NOTES };

it.each(VIEWS)('stays text in the %s', async (_name, fragment, shows) => {
  const { page, complaints, close } = await desk(session, RUNS, fragment, options);
  await page.waitForSelector(shows, { state: 'attached' });
  await page.hover('main');
  await page.$$eval('details', (all) => all.forEach((one) => (one.open = true)));
  await settle(page);
  await expectQuiet(page);
  expect(complaints).toEqual([]);
  await close();
});

it.each([
  ['list', '#/', '.runs tbody tr'],
  ['comparison', compareFragment(PATHS), '.compared tbody tr'],
  [
    'trend',
    fragmentOf({
      view: 'trend',
      study: ATTACKS[1] ?? '',
      cell: ATTACKS[1] ?? '',
      quantity: ATTACKS[1] ?? '',
      machine: '',
    }),
    '.trend-line',
  ],
])('stays text in a shared %s', async (_name, fragment, shows) => {
  const { page, close } = await desk(session, RUNS, fragment, options);
  await page.waitForSelector(shows, { state: 'attached' });
  const { html } = await shared(page);
  await close();
  const file = await session.open(html);
  await file.page.waitForSelector(shows, { state: 'attached' });
  await settle(file.page);
  await expectQuiet(file.page);
  expect(file.complaints).toEqual([]);
  await file.page.context().close();
});

it('a hostile search, error and tag do nothing', async () => {
  const { page, complaints, close } = await desk(session, RUNS, '', options);
  for (const text of ATTACKS) {
    await page.fill('#search', text);
    await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
  }
  await page.fill('#search', '');
  await page.waitForSelector('.runs tbody tr .tag');
  for (let i = 0; i < ATTACKS.length; i++) {
    await page.goto(page.url().replace(/#.*/, '#/'));
    await settle(page);
    await page.locator('.runs .tag').nth(i).click();
    await settle(page);
  }
  await expectQuiet(page);
  expect(unexpected(complaints)).toEqual([]);
  await close();
});

it('the policy refuses a script that got into the page', async () => {
  const { page, complaints, close } = await desk(session, RUNS, '', options);
  await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.hacked = 1';
    document.body.append(script);
    const element = document.createElement('div');
    element.innerHTML = '<img src="data:," onerror="window.hacked = 1">';
    document.body.append(element);
  });
  await page.waitForTimeout(200);
  expect(await page.evaluate(() => 'hacked' in window)).toBe(false);
  expect(complaints.some((text) => text.includes('Content Security Policy'))).toBe(true);
  await close();
});
