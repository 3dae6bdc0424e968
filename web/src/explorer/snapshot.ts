// A view as a file: the page's own source with the answers in it that the view was drawn from. Such a page
// shows that view and asks no server.

export interface Snapshot {
  /** RFC 3339. */
  made: string;
  fragment: string;
  /** By the address that was asked. */
  answers: Record<string, unknown>;
}

// Joined from parts: the placeholder must occur once in the built file, which has this script in it.
const MARK = ['/', '*latlab-snapshot*/'].join('');
const ELEMENT = ['<script id="snapshot" type="application/json">', '</', 'script>'];

/** The snapshot in the text of its element; null in a page that was served. */
export function parseSnapshot(text: string): Snapshot | null {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed === MARK) return null;
  return JSON.parse(trimmed) as Snapshot;
}

/** JSON in which nothing can end a script element or begin a comment. */
export function snapshotText(snapshot: Snapshot): string {
  return JSON.stringify(snapshot).replaceAll('<', '\\u003c');
}

/** The page's source with the snapshot in it. Throws where the source has no place for one. */
export function filled(source: string, snapshot: Snapshot): string {
  const [open = '', ...close] = ELEMENT;
  const parts = source.split(open + MARK + close.join(''));
  if (parts.length !== 2) throw new Error('the page has no place for a snapshot');
  return parts.join(open + snapshotText(snapshot) + close.join(''));
}

/** `explorer-compare-2026-11-28.html`. */
export function fileName(view: string, made: string): string {
  return `explorer-${view}-${made.slice(0, 10)}.html`;
}
