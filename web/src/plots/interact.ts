// Pointer, wheel and keys on a panel, translated into cursor and zoom of its `LinkedView`.
//
// Mouse: moving reads off, dragging zooms into a rectangle, a double click resets, the wheel zooms
// only with Ctrl, Alt or Meta, so that it never traps a reader who scrolls the page. Touch: one
// finger reads off (vertical swipes still scroll), two fingers zoom. Keys: arrows read off, + and -
// zoom, 0 or Escape resets.

import type { AxisSpec, Box, Domain, Scale } from '../axis';
import { s } from '../dom';
import type { LinkedView } from './linked';

export interface Surface {
  svg: SVGSVGElement;
  box: Box;
  x: Scale;
  y: Scale;
  view: LinkedView;
  full: { x: AxisSpec; y: AxisSpec };
  /** The cursor's initial place. */
  home: number;
  /** One step of the arrow keys from a value, in direction -1 or 1. */
  step: (from: number, direction: number) => number;
}

/** A drag shorter than this is a click. */
const CLICK_PIXELS = 8;

/**
 * Listens on `host`, which stays while its drawing is replaced (a gesture goes on through redraws);
 * `current` gives the drawing of the moment.
 */
export function interact(host: HTMLElement, current: () => Surface | null): void {
  listenPointers(host, current);
  host.addEventListener('dblclick', () => current()?.view.setZoom(null));
  host.addEventListener(
    'wheel',
    (event) => {
      const surface = current();
      if (!surface || !(event.ctrlKey || event.altKey || event.metaKey)) return;
      event.preventDefault();
      const about = fractions(surface, clamped(surface, local(surface, event)));
      surface.view.magnify(surface.full, Math.exp(-event.deltaY * 0.004), about, 'xy');
    },
    { passive: false },
  );
  host.addEventListener('keydown', (event) => {
    const surface = current();
    if (surface && pressed(surface, event.key)) event.preventDefault();
  });
}

function listenPointers(host: HTMLElement, current: () => Surface | null): void {
  const pointers = new Map<number, Domain>();
  let start: Domain | null = null;
  let spread = 0;

  host.addEventListener('pointerdown', (event) => {
    const surface = current();
    if (!surface || event.button !== 0) return;
    const at = local(surface, event);
    if (!inside(surface, at)) return;
    pointers.set(event.pointerId, at);
    capture(host, event.pointerId);
    if (event.pointerType === 'touch') {
      spread = pointers.size === 2 ? distance(pointers) : 0;
      surface.view.setCursor(surface.x.invert(at[0]));
    } else start = at;
  });

  host.addEventListener('pointermove', (event) => {
    const surface = current();
    if (!surface) return;
    const at = local(surface, event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, at);
    else if (event.pointerType === 'touch') return;
    if (pointers.size === 2) {
      const now = distance(pointers);
      const factor = spread > 0 ? now / spread : 1;
      if (Math.abs(factor - 1) < 0.04) return;
      spread = now;
      const about = fractions(surface, clamped(surface, middle(pointers)));
      surface.view.magnify(surface.full, factor, about, 'xy');
      return;
    }
    if (!start && !inside(surface, at)) {
      if (event.pointerType !== 'touch') surface.view.setCursor(null);
      return;
    }
    const within = clamped(surface, at);
    if (start) showBrush(surface, start, within);
    surface.view.setCursor(surface.x.invert(within[0]));
  });

  const finish = (event: PointerEvent): void => {
    pointers.delete(event.pointerId);
    const surface = current();
    if (!start || !surface) return;
    const from = start;
    start = null;
    hideBrush(surface);
    if (event.type === 'pointerup') zoomTo(surface, from, clamped(surface, local(surface, event)));
  };
  host.addEventListener('pointerup', finish);
  host.addEventListener('pointercancel', finish);
  host.addEventListener('pointerleave', (event) => {
    if (event.pointerType !== 'touch' && !start) current()?.view.setCursor(null);
  });
}

function pressed(surface: Surface, key: string): boolean {
  const { view } = surface;
  const from = view.cursor ?? surface.home;
  if (key === 'ArrowLeft') view.setCursor(surface.step(from, -1));
  else if (key === 'ArrowRight') view.setCursor(surface.step(from, 1));
  else if (key === '+' || key === '=') zoomAtCursor(surface, 1.6);
  else if (key === '-') zoomAtCursor(surface, 1 / 1.6);
  else if (key === '0' || key === 'Escape') view.setZoom(null);
  else return false;
  return true;
}

/** Position of an event in the drawing's own pixels. */
function local({ svg }: Surface, event: MouseEvent): Domain {
  const bounds = svg.getBoundingClientRect();
  const scale = bounds.width > 0 ? svg.viewBox.baseVal.width / bounds.width : 1;
  return [(event.clientX - bounds.left) * scale, (event.clientY - bounds.top) * scale];
}

function inside({ box }: Surface, [px, py]: Domain): boolean {
  return (
    px >= box.left - 2 &&
    px <= box.left + box.width + 2 &&
    py >= box.top &&
    py <= box.top + box.height + 2
  );
}

function clamped({ box }: Surface, [px, py]: Domain): Domain {
  const clamp = (v: number, low: number, size: number): number =>
    Math.min(low + size, Math.max(low, v));
  return [clamp(px, box.left, box.width), clamp(py, box.top, box.height)];
}

function fractions({ box }: Surface, [px, py]: Domain): Domain {
  return [(px - box.left) / box.width, 1 - (py - box.top) / box.height];
}

/** Zooms the x axis about the cursor where it is in view, about the middle otherwise. */
export function zoomAtCursor(
  surface: Pick<Surface, 'x' | 'box' | 'view' | 'full' | 'home'>,
  factor: number,
): void {
  const t = (surface.x(surface.view.cursor ?? surface.home) - surface.box.left) / surface.box.width;
  const about = t >= 0 && t <= 1 ? t : 0.5;
  surface.view.magnify(surface.full, factor, [about, 0.5], 'x');
}

function zoomTo(surface: Surface, a: Domain, b: Domain): void {
  const wide = Math.abs(a[0] - b[0]) >= CLICK_PIXELS;
  const tall = Math.abs(a[1] - b[1]) >= CLICK_PIXELS * 2;
  if (!wide && !tall) return;
  const { view, full, x, y } = surface;
  const now = view.zoom ?? { x: full.x.domain, y: full.y.domain };
  const sorted = (p: number, q: number): Domain => (p < q ? [p, q] : [q, p]);
  view.setZoom({
    x: wide ? sorted(x.invert(a[0]), x.invert(b[0])) : now.x,
    y: tall ? sorted(y.invert(a[1]), y.invert(b[1])) : now.y,
  });
}

function showBrush(surface: Surface, a: Domain, b: Domain): void {
  const { box, svg } = surface;
  const wide = Math.abs(a[0] - b[0]) >= CLICK_PIXELS;
  const tall = Math.abs(a[1] - b[1]) >= CLICK_PIXELS * 2;
  hideBrush(surface);
  if (!wide && !tall) return;
  svg.append(
    s('rect', {
      class: 'brush',
      x: wide ? Math.min(a[0], b[0]) : box.left,
      width: wide ? Math.abs(a[0] - b[0]) : box.width,
      y: tall ? Math.min(a[1], b[1]) : box.top,
      height: tall ? Math.abs(a[1] - b[1]) : box.height,
    }),
  );
}

function hideBrush({ svg }: Surface): void {
  svg.querySelector('.brush')?.remove();
}

function capture(host: HTMLElement, id: number): void {
  // A pointer that was made by a script cannot be captured; reading off works without.
  try {
    host.setPointerCapture(id);
  } catch {
    return;
  }
}

function distance(pointers: Map<number, Domain>): number {
  const [a, b] = [...pointers.values()];
  return a && b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
}

function middle(pointers: Map<number, Domain>): Domain {
  const [a, b] = [...pointers.values()];
  return a && b ? [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] : [0, 0];
}
