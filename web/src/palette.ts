// How a series looks: a colour (dark enough on paper, light enough on black, apart from each other
// for every common colour blindness), and a dash and a marker, so that colour is never the only cue.
// Derived from the Okabe-Ito set, with the lightness moved until each has a contrast of at least
// 3:1 with its background; a unit test holds that.

import {
  symbol,
  symbolCircle,
  symbolCross,
  symbolDiamond,
  symbolSquare,
  symbolStar,
  symbolTriangle,
  symbolWye,
  type SymbolType,
} from 'd3-shape';

export const LIGHT = [
  '#1f5fa8',
  '#c8501e',
  '#00806a',
  '#a3468c',
  '#8a6d00',
  '#2f8fb8',
  '#5b4bb0',
  '#4a4f57',
];
export const DARK = [
  '#74b0f2',
  '#ff9b63',
  '#3fcfae',
  '#ec94d2',
  '#e3c54a',
  '#7fd6f2',
  '#b1a4ff',
  '#c3c8d0',
];
export const PAPER = { light: '#fbfaf7', dark: '#14161a' };

// No dots: those are for the part of a curve that too few samples carry.
const DASHES = ['', '8 4', '10 3 3 3', '4 3', '14 4', '12 3 4 3 4 3', '5 2 2 2', '18 3'];
const MARKERS: SymbolType[] = [
  symbolCircle,
  symbolSquare,
  symbolTriangle,
  symbolDiamond,
  symbolCross,
  symbolStar,
  symbolWye,
];

export interface Look {
  /** A CSS colour that follows the theme. */
  color: string;
  /** `stroke-dasharray`; empty for a full line. */
  dash: string;
  marker: SymbolType;
}

/** The look of the series with this number. Colour and dash repeat with different periods. */
export function look(index: number): Look {
  const round = Math.floor(index / LIGHT.length);
  return {
    color: `var(--series-${index % LIGHT.length})`,
    dash: DASHES[(index + round) % DASHES.length] as string,
    marker: MARKERS[(index + round) % MARKERS.length] as SymbolType,
  };
}

/** The outline of a marker, `area` in square pixels. */
export function markerPath(marker: SymbolType, area = 42): string {
  return symbol(marker, area)() ?? '';
}

/** Style sheet with the series colours of both themes. */
export function paletteCss(): string {
  const list = (colors: string[]): string => colors.map((c, i) => `--series-${i}:${c}`).join(';');
  return [
    `:root{${list(LIGHT)}}`,
    `@media screen{:root[data-theme=dark]{${list(DARK)}}}`,
    `@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){${list(DARK)}}}`,
  ].join('\n');
}
