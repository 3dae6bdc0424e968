// A served explorer in a browser: what the tests of its views share.

import { readFileSync } from 'node:fs';

import type { BrowserContextOptions, Page } from 'playwright-core';

import type { Run } from '../../../src/explorer/documents';
import { serve, type Served, type ServerState } from '../../explorer/server.mjs';
import { Session, settle, type Opened } from '../session';

export interface Desk extends Opened {
  server: Served;
  close(): Promise<void>;
}

/** Serves these runs and opens the page at a fragment. */
export async function desk(
  session: Session,
  runs: Run[],
  fragment = '',
  options: Partial<ServerState> = {},
  context: BrowserContextOptions = {},
): Promise<Desk> {
  const server = await serve(runs, options);
  const own = (url: string): boolean =>
    url.startsWith(server.url) || url.startsWith(`blob:${server.url}`);
  const opened = await session.visit(server.url + fragment, own, context);
  await settle(opened.page);
  const close = async (): Promise<void> => {
    await opened.page.context().close();
    await server.stop();
  };
  return { ...opened, server, close };
}

/** Presses "Share as one HTML file" and gives the file. */
export async function shared(page: Page): Promise<{ name: string; html: string }> {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.click('[data-action="share"]'),
  ]);
  return { name: download.suggestedFilename(), html: readFileSync(await download.path(), 'utf8') };
}

/** Text as it is read, with plain spaces. */
export async function textOf(page: Page, selector: string): Promise<string> {
  const text = await page.locator(selector).first().innerText();
  return text.replace(/[\u2009\u202f\u200a]/g, ' ');
}

/** Complaints beside those of the browser about answers that a test provokes. */
export function unexpected(complaints: string[]): string[] {
  return complaints.filter((text) => !text.startsWith('Failed to load resource'));
}
