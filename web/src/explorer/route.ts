// The view and its choices, kept in the fragment of the URL: it can be bookmarked, sent and gone back to.

export const SORTS = ['study', 'machine', 'version', 'cells', 'started'] as const;
export type SortKey = (typeof SORTS)[number];

export interface ListRoute {
  view: 'list';
  query: string;
  sort: SortKey;
  descending: boolean;
  /** From 1. */
  page: number;
}

export interface CompareRoute {
  view: 'compare';
  /** Paths; the first is the baseline. */
  runs: string[];
  /** Empty for all quantities. */
  quantity: string;
  onlyDifferences: boolean;
  byChange: boolean;
}

export interface TrendRoute {
  view: 'trend';
  /** Empty where not chosen yet, as the rest. */
  study: string;
  cell: string;
  quantity: string;
  /** Empty for all machines. */
  machine: string;
}

export interface RunRoute {
  view: 'run';
  run: string;
}

export type Route = ListRoute | CompareRoute | TrendRoute | RunRoute;

export const LIST: ListRoute = {
  view: 'list',
  query: '',
  sort: 'started',
  descending: true,
  page: 1,
};

/** The route of a fragment; one that is not understood is the list of all runs. */
export function parseRoute(fragment: string): Route {
  const [path = '', search = ''] = split(fragment.replace(/^#/, ''), '?');
  const given = new URLSearchParams(search);
  const text = (name: string): string => given.get(name) ?? '';
  switch (path) {
    case '/compare':
      return {
        view: 'compare',
        runs: given.getAll('run'),
        quantity: text('quantity'),
        onlyDifferences: text('only') === 'differences',
        byChange: text('sort') === 'change',
      };
    case '/trend':
      return {
        view: 'trend',
        study: text('study'),
        cell: text('cell'),
        quantity: text('quantity'),
        machine: text('machine'),
      };
    case '/run':
      return { view: 'run', run: text('run') };
    default:
      return { ...LIST, query: text('q'), ...sortOf(text('sort')), page: pageOf(text('page')) };
  }
}

function split(text: string, at: string): [string, string] {
  const index = text.indexOf(at);
  return index < 0 ? [text, ''] : [text.slice(0, index), text.slice(index + 1)];
}

function sortOf(text: string): Pick<ListRoute, 'sort' | 'descending'> {
  const sort = SORTS.find((key) => key === text.replace(/^-/, ''));
  return sort
    ? { sort, descending: text.startsWith('-') }
    : { sort: LIST.sort, descending: LIST.descending };
}

function pageOf(text: string): number {
  const page = Number(text);
  return Number.isSafeInteger(page) && page > 0 ? page : 1;
}

/** `-started`. */
export function sortText({ sort, descending }: Pick<ListRoute, 'sort' | 'descending'>): string {
  return (descending ? '-' : '') + sort;
}

/** The fragment of a route, with `#`. What has its usual value is left out. */
export function fragmentOf(route: Route): string {
  const search = new URLSearchParams();
  const add = (name: string, value: string): void => {
    if (value !== '') search.append(name, value);
  };
  let path = '/';
  switch (route.view) {
    case 'list':
      add('q', route.query);
      add('sort', sortText(route) === sortText(LIST) ? '' : sortText(route));
      add('page', route.page === 1 ? '' : String(route.page));
      break;
    case 'compare':
      path = '/compare';
      for (const run of route.runs) search.append('run', run);
      add('quantity', route.quantity);
      add('only', route.onlyDifferences ? 'differences' : '');
      add('sort', route.byChange ? 'change' : '');
      break;
    case 'trend':
      path = '/trend';
      add('study', route.study);
      add('cell', route.cell);
      add('quantity', route.quantity);
      add('machine', route.machine);
      break;
    case 'run':
      path = '/run';
      add('run', route.run);
  }
  const text = encoded(search);
  return `#${path}${text === '' ? '' : `?${text}`}`;
}

/** Spaces as `%20`, which every decoder takes for a space. */
export function encoded(search: URLSearchParams): string {
  return search.toString().replace(/\+/g, '%20');
}

export const runFragment = (run: string): string => fragmentOf({ view: 'run', run });

export const compareFragment = (runs: string[]): string =>
  fragmentOf({ view: 'compare', runs, quantity: '', onlyDifferences: false, byChange: false });

/**
 * The address of a run's report page. Null for a path that a browser would resolve to another one: no run
 * has such a path.
 */
export function reportAddress(path: string): string | null {
  const parts = path.split('/');
  if (parts.some((part) => part === '' || part === '.' || part === '..')) return null;
  return `/report/${parts.map(encodeURIComponent).join('/')}`;
}
