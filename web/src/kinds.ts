// Looks of the kinds of causes: colour and marker together tell them apart, so that neither is the only
// cue. Ordinary work is faint; unknown causes have the colour of the text.

import {
  symbolCircle,
  symbolCross,
  symbolDiamond,
  symbolSquare,
  symbolStar,
  symbolTriangle,
  symbolWye,
  type SymbolType,
} from 'd3-shape';

export interface KindLook {
  color: string;
  marker: SymbolType;
  label: string;
}

const series = (index: number): string => `var(--series-${index})`;

const KINDS: Record<string, KindLook> = {
  running: { color: 'var(--faint)', marker: symbolCircle, label: 'running in the device' },
  delivery: { color: series(5), marker: symbolCircle, label: 'handed over by the kernel' },
  queueing: { color: series(4), marker: symbolCircle, label: 'queueing' },
  wait: { color: series(1), marker: symbolTriangle, label: 'waiting for a CPU' },
  'hard-irq': { color: series(0), marker: symbolSquare, label: 'hardirq' },
  'soft-irq': { color: series(0), marker: symbolDiamond, label: 'softirq' },
  tick: { color: series(2), marker: symbolSquare, label: 'timer tick' },
  timer: { color: series(2), marker: symbolDiamond, label: 'timer' },
  ipi: { color: series(5), marker: symbolSquare, label: 'inter-processor interrupt' },
  nmi: { color: series(5), marker: symbolStar, label: 'non-maskable interrupt' },
  'page-fault': { color: series(3), marker: symbolDiamond, label: 'page fault' },
  stopped: { color: series(3), marker: symbolSquare, label: 'stopped' },
  throttled: { color: series(1), marker: symbolSquare, label: 'CPU throttling' },
  held: { color: series(3), marker: symbolWye, label: 'the node stood still' },
  asleep: { color: series(4), marker: symbolDiamond, label: 'asleep in the device' },
  'idle-exit': { color: series(2), marker: symbolCircle, label: 'idle exit' },
  steal: { color: series(6), marker: symbolCircle, label: 'hypervisor steal' },
  hwlat: { color: series(6), marker: symbolDiamond, label: 'hypervisor or firmware' },
  'own-code': { color: series(7), marker: symbolCircle, label: "the device's own code" },
  'system-call': { color: series(7), marker: symbolSquare, label: "the device's system call" },
  'own-or-stall': { color: series(7), marker: symbolWye, label: 'own code or a silent stall' },
  unexplained: { color: 'var(--ink)', marker: symbolCross, label: 'unexplained' },
  'not-recorded': { color: 'var(--ink)', marker: symbolWye, label: 'not recorded' },
};

/** The look of a kind; a kind from a newer latlab looks like an unknown cause. */
export function kindLook(kind: string): KindLook {
  return KINDS[kind] ?? { color: 'var(--ink)', marker: symbolStar, label: kind };
}

/** The order of legends: as listed above. */
export function kindOrder(kind: string): number {
  const at = Object.keys(KINDS).indexOf(kind);
  return at < 0 ? Infinity : at;
}
