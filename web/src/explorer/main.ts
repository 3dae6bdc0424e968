// Puts the explorer together: follows the fragment of the URL to a view. A page with a snapshot in it shows
// the snapshot's view, whatever the fragment says.

import '../styles/page.css';
import '../styles/plots.css';
import '../styles/print.css';
import '../styles/explorer.css';

import { h } from '../dom';
import { moment } from '../format';
import { paletteCss } from '../palette';
import { unfoldAll } from '../sections/fold';
import { themeButton } from '../sections/theme';
import { Api } from './api';
import { Choice } from './choice';
import { ChosenBar } from './chosen';
import { CompareView } from './compare';
import type { Context, View } from './context';
import { ListView } from './list';
import { fragmentOf, LIST, parseRoute, type Route } from './route';
import { RunView } from './run';
import { parseSnapshot, type Snapshot } from './snapshot';
import { TrendView } from './trend';

class Explorer {
  private readonly place = h('main', {});
  private readonly nav = h('nav', { 'aria-label': 'Views' });
  private readonly context: Context;
  private readonly views: { [V in Route['view']]: View<Extract<Route, { view: V }>> };
  private readonly chosen: ChosenBar;
  private shown: Route['view'] | null = null;
  /** How far the list was scrolled when it was left. */
  private listScroll = 0;

  constructor(
    page: HTMLElement,
    private readonly snapshot: Snapshot | null,
  ) {
    const context: Context = {
      api: new Api(snapshot),
      choice: new Choice(),
      made: snapshot?.made ?? null,
      go: (route, how) => this.go(route, how),
    };
    this.context = context;
    this.views = {
      list: new ListView(context),
      compare: new CompareView(context),
      trend: new TrendView(context),
      run: new RunView(context),
    };
    this.chosen = new ChosenBar(context);
    page.replaceChildren(this.masthead(), this.place, this.chosen.element, this.footer());
    window.addEventListener('hashchange', () => this.follow());
    window.addEventListener('beforeprint', () => unfoldAll(document));
    this.follow();
  }

  private follow(): void {
    this.show(parseRoute(this.snapshot?.fragment ?? location.hash));
  }

  private go(route: Route, how?: 'replace'): void {
    if (how === 'replace') history.replaceState(null, '', fragmentOf(route));
    else history.pushState(null, '', fragmentOf(route));
    this.show(route);
  }

  private show(route: Route): void {
    const { view } = route;
    const isOther = view !== this.shown;
    if (isOther && this.shown !== null) this.views[this.shown].leave();
    if (isOther) {
      if (this.shown === 'list') this.listScroll = window.scrollY;
      this.place.replaceChildren(this.views[view].element);
      this.drawNav(view);
      this.chosen.show(view !== 'compare');
    }
    const isFirst = this.shown === null;
    this.shown = view;
    (this.views[view] as View<Route>).show(route);
    if (!isOther || isFirst) return;
    // A reader of the screen hears where the link led to.
    this.place.querySelector('h1')?.focus({ preventScroll: true });
    window.scrollTo(0, view === 'list' ? this.listScroll : 0);
  }

  private masthead(): HTMLElement {
    const name = h('a', { class: 'name', href: '#/' }, 'latlab explorer');
    return h(
      'header',
      { class: 'masthead' },
      h(
        'div',
        { class: 'brand' },
        this.snapshot ? 'latlab explorer' : name,
        this.nav,
        themeButton(),
      ),
    );
  }

  private drawNav(view: Route['view']): void {
    if (this.snapshot) return;
    const item = (text: string, route: Route): HTMLElement =>
      h(
        'a',
        { href: fragmentOf(route), 'aria-current': view === route.view ? 'page' : undefined },
        text,
      );
    const trend: Route = { view: 'trend', study: '', cell: '', quantity: '', machine: '' };
    this.nav.replaceChildren(item('Runs', LIST), item('Trends', trend));
  }

  private footer(): HTMLElement {
    const { made } = this.context;
    return h(
      'footer',
      {},
      made === null
        ? 'Served from this machine by latlab serve.'
        : `Made ${moment(made)} from latlab’s explorer. This file has one view and needs no network.`,
    );
  }
}

function start(): void {
  const page = document.getElementById('page');
  if (!page) return;
  document.head.append(h('style', {}, paletteCss()));
  try {
    new Explorer(page, parseSnapshot(document.getElementById('snapshot')?.textContent ?? ''));
  } catch (error) {
    page.replaceChildren(
      h(
        'main',
        { class: 'problem' },
        h('h1', {}, 'The snapshot in this page cannot be read.'),
        h('p', { class: 'mono' }, String(error)),
      ),
    );
  }
}

start();
