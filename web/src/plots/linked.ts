// Shared state of the small multiples of one plot: the zoomed part of the axes and the cursor. Hovering
// over one panel moves the cursor in all of them, so that groups can be compared at one percentile.

import { atFraction, fraction, type AxisSpec, type Domain } from '../axis';

export interface Zoom {
  x: Domain;
  y: Domain;
}

export class LinkedView {
  zoom: Zoom | null = null;
  /** Value on the x axis; null means the plot's own default. */
  cursor: number | null = null;
  private readonly onZoom: (() => void)[] = [];
  private readonly onCursor: (() => void)[] = [];

  subscribe(zoom: () => void, cursor: () => void): void {
    this.onZoom.push(zoom);
    this.onCursor.push(cursor);
  }

  setCursor(value: number | null): void {
    if (value === this.cursor) return;
    this.cursor = value;
    for (const listener of this.onCursor) listener();
  }

  setZoom(zoom: Zoom | null): void {
    this.zoom = zoom;
    for (const listener of this.onZoom) listener();
  }

  /** Axis as zoomed. */
  apply(axis: AxisSpec, which: 'x' | 'y'): AxisSpec {
    return this.zoom ? { ...axis, domain: this.zoom[which] } : axis;
  }

  /**
   * Magnifies by `factor` about a point given as fractions of the present view (0 to 1 from the
   * lower left), within the full axes; showing all of both ends the zoom.
   */
  magnify(
    full: { x: AxisSpec; y: AxisSpec },
    factor: number,
    about: Domain,
    axes: 'x' | 'xy',
  ): void {
    const now = this.zoom ?? { x: full.x.domain, y: full.y.domain };
    const x = magnified(full.x, now.x, factor, about[0]);
    const y = axes === 'xy' ? magnified(full.y, now.y, factor, about[1]) : now.y;
    const whole = sameDomain(x, full.x.domain) && (axes === 'x' || sameDomain(y, full.y.domain));
    this.setZoom(whole ? null : { x, y });
  }
}

function sameDomain(a: Domain, b: Domain): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

/** Smallest part of an axis that zooming leaves in view. */
const SMALLEST = 0.004;

function magnified(axis: AxisSpec, domain: Domain, factor: number, about: number): Domain {
  const low = fraction(axis.type, axis.domain, domain[0]);
  const high = fraction(axis.type, axis.domain, domain[1]);
  const size = Math.min(1, Math.max(SMALLEST, (high - low) / factor));
  if (size === 1) return axis.domain;
  const centre = low + (high - low) * about;
  const from = Math.min(1 - size, Math.max(0, centre - size * about));
  return [
    from === 0 ? axis.domain[0] : atFraction(axis.type, axis.domain, from),
    from + size === 1 ? axis.domain[1] : atFraction(axis.type, axis.domain, from + size),
  ];
}
