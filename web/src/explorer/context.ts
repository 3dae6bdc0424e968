// The contract between the page and its views.

import type { Api } from './api';
import type { Choice } from './choice';
import type { Route } from './route';

export interface Context {
  api: Api;
  choice: Choice;
  /** When a snapshot was made (RFC 3339); null in a page that is served, where all links work. */
  made: string | null;
  /** Goes to a route. `replace` keeps the browser's history as it is, for choices within a view. */
  go(route: Route, how?: 'replace'): void;
}

/** `R` is the kind of route that the view shows. */
export interface View<R extends Route> {
  readonly element: HTMLElement;
  show(route: R): void;
  /** The view is left: nothing may go on. */
  leave(): void;
}
